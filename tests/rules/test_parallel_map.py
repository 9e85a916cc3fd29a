import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from sides import Answers, assert_no_match, assert_refuses, assert_rewrites

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


def test_calls_an_unseeded_random_function_in_parallel_where_it_is_faster():
    done = assert_rewrites(RULE, tf.data.Dataset.range(50).map(noisy), "range(0, 50) | map(noisy, calls=AUTOTUNE)")
    assert done.steps[0].keeps is Keeps.TRAINING


def test_refuses_an_unseeded_random_function_that_is_not_faster_in_parallel():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, tf.data.Dataset.range(50).map(noisy), "measured 0.80x", answers=slower)


@pytest.mark.parametrize("keeps", [Keeps.SEQUENCE, Keeps.ELEMENTS])
def test_refuses_an_unseeded_random_function_where_draws_must_stay(keeps):
    assert_refuses(RULE, tf.data.Dataset.range(50).map(noisy), "it keeps training only", keeps)


def test_refuses_a_seeded_random_function():
    assert_refuses(RULE, tf.data.Dataset.range(50).map(seeded), "from the author's seed")


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
    assert_refuses(RULE, generated().map(double).with_options(options), "the generator is Python code, and it would")
    assert_refuses(RULE, generated().map(noisy), "the generator is Python code, and it would run ahead")


def test_does_not_match_a_parallel_or_synchronous_map():
    assert_no_match(RULE, tf.data.Dataset.range(50).map(double, num_parallel_calls=1))
    assert_no_match(RULE, tf.data.Dataset.range(50).map(double, synchronous=True))
