import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, with_all_rules

RULE = "merge_maps"


def double(x):
    return x * 2


def thirds(x):
    return tf.cast(x, tf.float32) / 3


def many(x):
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(x), [x])
    return {"ragged": ragged, "pair": (tf.sparse.from_dense([x, 0]), tf.strings.as_string(x))}


def noisy(x):
    return x + tf.random.uniform((), maxval=9, dtype=tf.int64)


def of(dataset, *functions, calls=2, **arguments):
    for function in functions:
        dataset = dataset.map(function, num_parallel_calls=calls, **arguments)
    return dataset


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize(("calls", "shown"), [(1, "1"), (3, "3"), (tf.data.AUTOTUNE, "AUTOTUNE")])
def test_one_call_does_both(calls, shown, keeps):
    dataset = of(tf.data.Dataset.range(50), double, thirds, calls=calls)
    assert_rewrites(RULE, dataset, f"range(0, 50) | map(double then thirds, calls={shown})", keeps)


def test_merges_as_many_as_there_are_and_keeps_their_arguments_and_the_last_name():
    dataset = of(tf.data.Dataset.range(9), double, double, deterministic=True, use_unbounded_threadpool=True)
    dataset = dataset.map(many, num_parallel_calls=2, deterministic=True, use_unbounded_threadpool=True, name="all")
    done = assert_rewrites(
        RULE,
        dataset,
        "range(0, 9) | map(double then double then many, calls=2, deterministic=True, unbounded=True) as 'all'",
    )
    assert len(done.steps) == 2


def test_no_elements_an_unknown_number_and_elements_without_end():
    numbers = tf.data.Dataset.range(9)
    merged = "map(double then many, calls=2)"
    assert_rewrites(RULE, of(numbers.take(0), double, many), f"range(0, 9) | take(0) | {merged}", Keeps.SEQUENCE)
    some = numbers.filter(lambda x: x > 3)
    assert_rewrites(RULE, of(some, double, many), f"range(0, 9) | filter(<lambda>) | {merged}", Keeps.SEQUENCE)
    endless = of(numbers.repeat(), double, many).take(20)
    assert_rewrites(RULE, endless, f"range(0, 9) | repeat() | {merged} | take(20)", Keeps.SEQUENCE)


def test_every_bit_stays():
    numbers = np.random.default_rng(0).normal(size=500).astype(np.float32)
    chain = (lambda x: x * 0.1, lambda x: x * 0.3, lambda x: x + 1e6, lambda x: x - 1e6, tf.exp, tf.math.log)
    done = apply(RULE, of(tf.data.Dataset.from_tensor_slices(numbers), *chain))
    assert len(done.steps) == 5
    assert compare(build(done.before), build(done.after), Keeps.SEQUENCE) is None


def test_elements_of_any_structure_pass_through():
    slices = tf.data.Dataset.from_tensor_slices((tf.sparse.eye(4), tf.ragged.constant([[1], [2, 3], [], [4]])))
    dataset = of(slices, lambda sparse, ragged: (ragged, sparse), lambda ragged, sparse: {"r": ragged, "s": sparse})
    assert_rewrites(RULE, dataset, "tensor_slices | map(<lambda> then <lambda>, calls=2)", Keeps.SEQUENCE)


def test_a_function_that_draws_is_merged_where_draws_may_change():
    done = assert_rewrites(
        RULE, of(tf.data.Dataset.range(9), double, noisy), "range(0, 9) | map(double then noisy, calls=2)"
    )
    assert done.steps[0].keeps is Keeps.TRAINING
    assert_refuses(RULE, of(tf.data.Dataset.range(9), noisy, double), "it keeps training only", Keeps.ELEMENTS)


@pytest.mark.parametrize("position", [0, 1])
def test_refuses_functions_with_state(position):
    factor = tf.Variable(2, dtype=tf.int64)

    def scale(x):
        return x * factor

    def seeded(x):
        return x + tf.random.uniform((), maxval=9, dtype=tf.int64, seed=7)

    def python(x):
        return tf.ensure_shape(tf.py_function(lambda y: y, [x], tf.int64), ())

    for function, reason in ((scale, "reads a variable"), (seeded, "the author's seed"), (python, "runs Python code")):
        order = (double, function) if position else (function, double)
        assert_refuses(RULE, of(tf.data.Dataset.range(9), *order), reason)


def test_refuses_where_errors_are_ignored():
    dataset = of(tf.data.Dataset.range(9), lambda x: 6 // x, double).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements")


def with_quotient(x):
    return x, 10 // (7 - x)


def test_refuses_to_lose_an_error_in_what_the_second_map_ignores_where_the_sequence_is_promised():
    dataset = of(tf.data.Dataset.range(6), with_quotient, lambda x, quotient: (x, quotient + 1)[0])
    assert_refuses(RULE, dataset, "what is no longer computed cannot", Keeps.SEQUENCE)
    assert_rewrites(RULE, dataset, "range(0, 6) | map(with_quotient then <lambda>, calls=2)", Keeps.ELEMENTS)
    used = of(tf.data.Dataset.range(6), with_quotient, lambda x, quotient: x + quotient)
    assert_rewrites(RULE, used, "range(0, 6) | map(with_quotient then <lambda>, calls=2)", Keeps.SEQUENCE)


def test_refuses_what_is_not_faster():
    even = Answers(speed=(1.01, 0.9, 1.1))
    assert_refuses(RULE, of(tf.data.Dataset.range(9), double, thirds), "measured 1.01x", answers=even)


def test_refuses_elements_of_which_no_sample_can_be_held():
    dataset = of(tf.data.Dataset.from_tensor_slices(tf.sparse.eye(4)), lambda x: x, lambda x: x)
    assert_refuses(RULE, dataset, "its elements are not plain tensors", answers=SampleMeasurements())


def test_all_rules_together_give_the_same_elements():
    dataset = of(tf.data.Dataset.range(200), double, thirds, tf.strings.as_string).batch(32)
    assert compare(dataset, with_all_rules(dataset, Keeps.SEQUENCE), Keeps.SEQUENCE) is None


def test_leaves_maps_alone_whose_results_a_cache_keeps():
    assert not apply(RULE, of(tf.data.Dataset.range(9), double, thirds).batch(3).cache()).steps
    assert_rewrites(
        RULE,
        of(tf.data.Dataset.range(9).cache(), double, thirds),
        "range(0, 9) | cache() | map(double then thirds, calls=2)",
    )


def test_does_not_match_maps_that_are_called_differently():
    numbers = tf.data.Dataset.range(9)
    assert_no_match(RULE, numbers.map(double).map(thirds))
    assert_no_match(RULE, numbers.map(double, synchronous=True).map(thirds, synchronous=True))
    assert_no_match(RULE, numbers.map(double).map(thirds, num_parallel_calls=2))
    assert_no_match(RULE, numbers.map(double, num_parallel_calls=2).map(thirds, num_parallel_calls=3))
    assert_no_match(RULE, numbers.map(double, 2, deterministic=False).map(thirds, 2))
    assert_no_match(RULE, numbers.map(double, 2, use_unbounded_threadpool=True).map(thirds, 2))
    assert_no_match(RULE, numbers.map(double, 2).batch(2).map(thirds, 2))


def add_fifth(x):
    return x + 0.2


def thousandfold(x):
    return tf.cast((x + 0.1) * 1000, tf.int64)


def test_refuses_a_sum_that_goes_on_and_of_which_a_whole_number_is_made():
    floats = tf.data.Dataset.from_tensor_slices(np.linspace(0, 1, 9, dtype=np.float32))
    assert_refuses(RULE, of(floats, add_fifth, thousandfold), "its own Cast may turn", Keeps.ELEMENTS)


@pytest.mark.parametrize("keeps", [Keeps.TRAINING, Keeps.ELEMENTS])
@pytest.mark.parametrize(
    ("first", "then", "op"),
    [
        (lambda x: x + 1.0, tf.math.log, "Log"),
        (tf.exp, lambda x: x - 1.0, "Sub"),
        (tf.nn.softmax, tf.math.log, "Log"),
        (tf.nn.relu, lambda x: tf.argmax(x), "ArgMax"),
        (lambda x: tf.nn.relu(tf.cast(x, tf.int32)), lambda x: tf.argmin(x), "ArgMin"),
        (tf.sqrt, tf.reduce_max, "Max"),
    ],
)
def test_refuses_two_ops_that_are_computed_as_one(first, then, op, keeps):
    floats = tf.data.Dataset.from_tensor_slices(np.ones((4, 3), np.float32))
    assert_refuses(RULE, of(floats, first, then), f"its own {op} may turn", keeps)


def test_refuses_an_exponent_that_becomes_constant_where_the_sequence_is_promised():
    floats = tf.data.Dataset.from_tensor_slices(np.linspace(0, 1, 9, dtype=np.float32))
    powers = of(floats, lambda x: (x, tf.constant(3.0)), tf.pow)
    assert_refuses(
        RULE, powers, "since floats may round differently in a function that is cut or joined", Keeps.SEQUENCE
    )


def test_the_logarithm_of_what_is_a_little_more_is_merged_at_every_promise():
    floats = tf.data.Dataset.from_tensor_slices(np.linspace(0, 1, 9, dtype=np.float32))
    logarithms = of(floats, lambda x: x + 1e-6, tf.math.log)
    assert_rewrites(RULE, logarithms, "tensor_slices | map(<lambda> then log, calls=2)", Keeps.SEQUENCE)


@pytest.mark.parametrize(("first", "then"), [(tf.nn.relu, tf.reduce_max), (tf.negative, lambda x: tf.argmin(x))])
def test_an_extreme_of_what_rounds_nothing_is_merged_at_every_promise(first, then):
    rows = tf.data.Dataset.from_tensor_slices(np.random.default_rng(0).normal(size=(99, 8)).astype(np.float32))
    name = getattr(then, "__name__", "<lambda>")
    assert_rewrites(
        RULE, of(rows, first, then), f"tensor_slices | map({first.__name__} then {name}, calls=2)", Keeps.SEQUENCE
    )


def test_refuses_the_largest_of_what_rounds_where_the_sequence_is_promised():
    rows = tf.data.Dataset.from_tensor_slices(np.random.default_rng(0).normal(size=(99, 8)).astype(np.float32))
    assert_refuses(RULE, of(rows, tf.sigmoid, tf.reduce_max), "since floats may round differently", Keeps.SEQUENCE)


WEIGHTS = np.random.default_rng(1).normal(size=(2, 2, 1, 2)).astype(np.float32)


def scaled(x):
    return tf.expand_dims(x * 0.3, 0)


def convolved(x):
    return tf.nn.conv2d(x, WEIGHTS, 1, "SAME")


@pytest.mark.parametrize(
    ("first", "then"), [(scaled, convolved), (tf.math.reciprocal, lambda x: tf.math.reciprocal(tf.transpose(x)))]
)
def test_refuses_what_is_folded_into_what_comes_next_where_the_sequence_is_promised(first, then):
    images = tf.data.Dataset.from_tensor_slices(np.random.default_rng(0).normal(size=(9, 4, 4, 1)).astype(np.float32))
    assert_refuses(RULE, of(images, first, then), "since floats may round differently", Keeps.SEQUENCE)
    assert apply(RULE, of(images, first, then), Keeps.ELEMENTS).steps


def test_what_is_multiplied_by_several_numbers_is_convolved_at_every_promise():
    images = tf.data.Dataset.from_tensor_slices(np.random.default_rng(0).normal(size=(9, 4, 4, 1)).astype(np.float32))
    rows = of(images, lambda x: (x * np.arange(4, dtype=np.float32)[:, None, None])[None], convolved)
    assert_rewrites(RULE, rows, "tensor_slices | map(<lambda> then convolved, calls=2)", Keeps.SEQUENCE)


def test_the_place_of_the_largest_is_looked_up_in_what_others_need_too():
    rows = tf.data.Dataset.from_tensor_slices(-np.random.default_rng(0).random((99, 8)).astype(np.float32))
    both = of(rows, tf.nn.relu, lambda x: (x, tf.argmax(x)))
    assert_rewrites(RULE, both, "tensor_slices | map(relu then <lambda>, calls=2)", Keeps.SEQUENCE)
