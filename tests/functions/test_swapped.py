"""With some of its ops swapped, a function does all else that it did."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.swapped import find_swaps, with_swaps
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract

NUMBERS = tf.data.Dataset.range(8).map(lambda x: tf.cast(x, tf.float32))


def doubled(op):
    """Twice the sine, in place of the sine."""
    return (lambda x: [2 * tf.sin(x)]) if op.type == "Sin" else None


def with_doubled(dataset):
    tree = extract(dataset)
    fn = with_swaps(tree.fn, find_swaps(tree.fn.concrete.graph, doubled), "doubled")
    return build(replace(tree, fn=fn))


def values(dataset):
    return [element.numpy() for element in dataset]


def test_ops_are_swapped_also_in_branches():
    def function(x):
        return tf.cond(x > 3, lambda: tf.cond(x > 5, lambda: tf.sin(x), lambda: x), lambda: -tf.sin(x))

    expected = [2 * np.sin(x) if x > 5 else x if x > 3 else -2 * np.sin(x) for x in np.arange(8, dtype=np.float32)]
    np.testing.assert_allclose(values(with_doubled(NUMBERS.map(function))), expected, rtol=1e-6)


def test_a_branch_may_give_several_tensors_and_structures():
    def function(x):
        return tf.cond(x > 3, lambda: {"a": tf.sin(x), "b": (x, x)}, lambda: {"a": x, "b": (x, tf.sin(x))})

    dataset = with_doubled(NUMBERS.map(function))
    assert dataset.element_spec == NUMBERS.map(function).element_spec
    last = list(dataset)[-1]
    assert last["a"].numpy() == pytest.approx(2 * np.sin(7), rel=1e-6)
    assert last["b"][1].numpy() == 7


def test_variables_stay_live_in_branches_too():
    factor = tf.Variable(1.0)
    dataset = with_doubled(NUMBERS.map(lambda x: tf.cond(x > 3, lambda: tf.sin(x) * factor, lambda: x * factor)))
    before = values(dataset)
    factor.assign(3.0)
    np.testing.assert_allclose(values(dataset), 3 * np.array(before), rtol=1e-6)


def test_what_only_has_to_run_still_does_in_a_branch():
    def function(x):
        def checked():
            tf.debugging.assert_less(x, 6.0, "too much")
            return tf.sin(x)

        return tf.cond(x > 3, checked, lambda: x)

    iterator = iter(with_doubled(NUMBERS.map(function)))
    assert next(iterator).numpy() == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="too much"):
        list(iterator)


def test_seeds_are_kept():
    tf.random.set_seed(1)
    try:
        dataset = NUMBERS.map(lambda x: tf.sin(x) * 0 + tf.random.uniform((), seed=3))
        expected = values(dataset)
        assert effects(extract(dataset).fn).seeded_random
        assert values(with_doubled(dataset)) == expected
    finally:
        tf.random.set_seed(None)


def test_branches_that_give_nothing_are_left_as_they_are():
    norm = tf.function(lambda x: x / 255.0)

    def checked(x):
        def check():
            tf.debugging.assert_less(norm(x), 2.0)

        tf.cond(tf.reduce_max(x) > 1, check, lambda: None)
        return norm(x)

    node = extract(tf.data.Dataset.from_tensors(tf.ones([3])).map(checked))
    np.testing.assert_array_equal(next(iter(build(node))), np.ones(3, np.float32) / 255)


def test_what_runs_on_a_device_is_copied_there():
    def placed(x):
        with tf.device("/CPU:0"):
            y = tf.sin(x)
        return tf.function(lambda z: z * 2.0)(y)

    fn = extract(tf.data.Dataset.from_tensors(1.0).map(placed)).fn
    assert [op.device[-5:] for op in fn.concrete.graph.get_operations() if op.type == "Sin"] == ["CPU:0"]
