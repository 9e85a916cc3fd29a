from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.joined.compose import compose
from autopipe.pipeline.extract import extract


def composed(dataset):
    """Both functions of a dataset that ends in two maps."""
    then = extract(dataset)
    return then.input.fn, then.fn, compose(then.input.fn, then.fn)


def in_turn(first, then, *tensors):
    return then.concrete(*first.concrete(*tensors))


def double(x):
    return x * 2


def split(x):
    return {"even": x % 2, "rest": (x, tf.cast(x, tf.float32))}


@pytest.mark.parametrize("value", [-3, 0, 2**62])
def test_runs_one_after_the_other(value):
    first, then, both = composed(tf.data.Dataset.range(9).map(double).map(split))
    given = tf.constant(value, tf.int64)
    assert [x.numpy() for x in both.concrete(given)] == [x.numpy() for x in in_turn(first, then, given)]


def test_takes_what_the_first_takes_and_gives_what_the_second_gives():
    first, then, both = composed(tf.data.Dataset.range(9).map(split).map(lambda parts: parts["rest"]))
    assert both.input_spec == first.input_spec
    assert both.output_spec == then.output_spec
    assert (both.element_types, both.element_shapes) == (then.element_types, then.element_shapes)
    assert both.keeps_alive == (first, then)


def test_shapes_that_show_only_in_both_together_are_known():
    ranges = tf.data.Dataset.range(9).map(lambda x: (x, x + 3)).map(lambda start, end: {"at": tf.range(start, end)})
    _, then, both = composed(ranges)
    assert then.output_spec == {"at": tf.TensorSpec([None], tf.int64)}
    assert both.output_spec == {"at": tf.TensorSpec([3], tf.int64)}


def test_shapes_that_are_known_already_stay_so():
    end = extract(tf.data.Dataset.range(9).map(double).map(lambda x: tf.fill(tf.stack([x, 2]), x)))
    known = replace(end.fn, output_spec=tf.TensorSpec([3, None], tf.int64))
    assert compose(end.input.fn, known).output_spec == tf.TensorSpec([3, 2], tf.int64)


def test_is_named_as_both_and_stands_where_the_first_does():
    first, _, both = composed(tf.data.Dataset.range(9).map(double).map(split))
    assert (str(both), both.location) == ("double then split", first.location)


def test_the_same_two_functions_are_composed_once():
    first, then, both = composed(tf.data.Dataset.range(9).map(double).map(split))
    assert compose(first, then) == both
    assert compose(replace(first), replace(then)) == both


@pytest.mark.parametrize("assigned", ["first", "second"])
def test_a_variable_that_either_captures_is_read_live(assigned):
    variables = {"first": tf.Variable(2, dtype=tf.int64), "second": tf.Variable(5, dtype=tf.int64)}
    dataset = tf.data.Dataset.range(9).map(lambda x: x * variables["first"]).map(lambda x: x + variables["second"])
    *_, both = composed(dataset)
    assert int(both.concrete(tf.constant(3, tf.int64))[0]) == 11
    variables[assigned].assign(10)
    assert int(both.concrete(tf.constant(3, tf.int64))[0]) == {"first": 35, "second": 16}[assigned]


def test_arrays_that_are_captured_by_both_come_along():
    table = tf.constant(np.arange(5) * 10)
    *_, both = composed(tf.data.Dataset.range(5).map(lambda x: table[x] // 10).map(lambda x: table[x] + x))
    assert int(both.concrete(tf.constant(4, tf.int64))[0]) == 44


@pytest.mark.parametrize(
    "middle",
    [
        lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x), [x]),
        lambda x: tf.sparse.from_dense([x, 0, x]),
        lambda x: tf.experimental.Optional.from_value(x),
        lambda x: {"a": None, "b": x},
        lambda x: tf.TensorArray(tf.int64, 1).write(0, x),
        lambda x: tf.data.Dataset.range(x),
    ],
    ids=["ragged", "sparse", "optional", "none", "array", "dataset"],
)
def test_any_structure_may_pass_between(middle):
    def consume(*parts, **named):
        return tf.constant(1)

    first, then, both = composed(tf.data.Dataset.range(4).map(middle).map(consume))
    given = tf.constant(3, tf.int64)
    assert [x.numpy() for x in both.concrete(given)] == [x.numpy() for x in in_turn(first, then, given)]


def test_elements_of_several_parts_go_in():
    slices = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": ["x", "y"], "c": tf.ragged.constant([[1], []])})
    *_, both = composed(slices.map(lambda parts: (parts["c"], parts["b"])).map(lambda c, b: (b, tf.size(c))))
    dataset = slices.map(lambda parts: (parts["b"], tf.size(parts["c"])))
    assert both.output_spec == dataset.element_spec
