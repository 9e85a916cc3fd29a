import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_map"


def double(x):
    return x * 2


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def seeded(x):
    return tf.random.uniform((), seed=7)


@pytest.mark.parametrize("keeps", Keeps)
def test_calls_a_function_that_only_computes_in_parallel(keeps):
    dataset = tf.data.Dataset.range(50).map(double, name="twice")
    assert_rewrites(RULE, dataset, "range(0, 50) | map(double, calls=AUTOTUNE) as 'twice'", keeps)


def test_calls_an_unseeded_random_function_in_parallel_unless_it_is_slower():
    done = assert_rewrites(RULE, tf.data.Dataset.range(50).map(noisy), "range(0, 50) | map(noisy, calls=AUTOTUNE)")
    assert done.steps[0].keeps is Keeps.TRAINING


def test_refuses_an_unseeded_random_function_that_is_slower_in_parallel():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, tf.data.Dataset.range(50).map(noisy), "measured 0.80x", answers=slower)


@pytest.mark.parametrize("keeps", [Keeps.SEQUENCE, Keeps.ELEMENTS])
def test_refuses_an_unseeded_random_function_where_draws_must_stay(keeps):
    assert_refuses(RULE, tf.data.Dataset.range(50).map(noisy), "it keeps training only", keeps)


def test_leaves_draws_that_must_keep_their_order_to_another_rule():
    assert_no_match(RULE, tf.data.Dataset.range(50).map(seeded))


def test_calls_a_function_that_reads_a_variable_in_parallel_and_reads_it_live():
    factor = tf.Variable(2, dtype=tf.int64)
    dataset = tf.data.Dataset.range(50).map(lambda x: x * factor)
    done = assert_rewrites(RULE, dataset, "range(0, 50) | map(<lambda>, calls=AUTOTUNE)")
    assert done.steps[0].keeps is Keeps.TRAINING

    factor.assign(3)
    assert [int(x) for x in build(done.after)] == [3 * x for x in range(50)]


def added(seen, x):
    return seen.assign_add([x, 0]) * 0


def scattered(seen, x):
    return seen.scatter_add(tf.IndexedSlices([x], [0])) * 0


def in_python(seen, x):
    return tf.ensure_shape(tf.py_function(lambda y: seen.assign_add([y, 0]) * 0, [x], tf.int64), [2])


@pytest.mark.parametrize("note", [added, scattered, in_python])
def test_refuses_a_function_that_reads_what_another_stage_may_assign(note):
    seen = tf.Variable([0, 0], dtype=tf.int64)
    dataset = tf.data.Dataset.range(50).map(lambda x: x + seen[0]).map(lambda x: note(seen, x))
    done = apply(RULE, dataset)
    assert "<lambda> reads a variable, and <lambda>" in done.refusals[-1].reason
    assert "which may assign it" in done.refusals[-1].reason
    assert done.after == done.before


def test_code_that_is_declared_stateless_assigns_nothing():
    factor = tf.Variable(2, dtype=tf.int64)

    def negative(x):
        return tf.ensure_shape(tf.numpy_function(lambda y: -y, [x], tf.int64, stateful=False), ())

    dataset = tf.data.Dataset.range(50).map(lambda x: x * factor).map(negative)
    assert_rewrites(RULE, dataset, "range(0, 50) | map(<lambda>, calls=AUTOTUNE) | map(negative)")


def test_what_reads_no_variable_is_called_in_parallel_whatever_others_assign():
    count = tf.Variable(0, dtype=tf.int64)
    dataset = tf.data.Dataset.range(50).map(double).map(lambda x: count.assign_add(x) * 0)
    done = apply(RULE, dataset)
    assert one_line(done.after) == "range(0, 50) | map(double, calls=AUTOTUNE) | map(<lambda>)"


def test_calls_a_lookup_in_a_table_that_cannot_change_in_parallel():
    pairs = tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9, dtype=tf.int64) * 3)
    table = tf.lookup.StaticHashTable(pairs, -1)
    assert_rewrites(RULE, tf.data.Dataset.range(50).map(table.lookup), "range(0, 50) | map(lookup, calls=AUTOTUNE)")


def test_refuses_a_function_that_counts():
    count = tf.Variable(0)

    def counting(x):
        count.assign_add(1)
        return x

    assert_refuses(RULE, tf.data.Dataset.range(50).map(counting), "keeps state (AssignAddVariableOp)")


def test_refuses_a_lookup_since_the_table_may_be_filled_in_between():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)
    assert_refuses(RULE, tf.data.Dataset.range(50).map(table.lookup), "looks up in a table that may be filled")


def generated():
    return tf.data.Dataset.from_generator(lambda: iter(range(5)), output_signature=tf.TensorSpec((), tf.int64))


def test_reads_a_generator_ahead_only_where_tensorflow_does_so_by_itself():
    options = tf.data.Options()
    options.autotune.enabled = False
    assert_rewrites(RULE, generated().map(double), "generator | map(double, calls=AUTOTUNE)")
    assert_refuses(
        RULE, generated().map(double).with_options(options), "the generator runs Python code (PyFunc), and it would"
    )
    assert_refuses(RULE, generated().map(noisy), "the generator runs Python code (PyFunc), and it would run ahead")


def summed(x):
    return tf.data.Dataset.range(x).reduce(x, lambda total, y: total + y)


def checked(x):
    tf.debugging.assert_non_negative(x)
    return x


def test_reads_a_generator_ahead_for_no_function_that_is_registered_as_stateful():
    pairs = tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9, dtype=tf.int64) * 3)
    for function in (tf.lookup.StaticHashTable(pairs, -1).lookup, summed):
        assert_refuses(RULE, generated().map(function), "the generator runs Python code (PyFunc), and it would run")
        files = tf.data.TextLineDataset([__file__]).take(3).map(tf.strings.length).map(lambda x: tf.cast(x, tf.int64))
        assert one_line(apply(RULE, files.map(function)).after).count("calls=AUTOTUNE") == 3
    assert_rewrites(RULE, generated().map(checked), "generator | map(checked, calls=AUTOTUNE)")


def test_does_not_match_a_parallel_or_synchronous_map():
    assert_no_match(RULE, tf.data.Dataset.range(50).map(double, num_parallel_calls=1))
    assert_no_match(RULE, tf.data.Dataset.range(50).map(double, synchronous=True))
