"""What is zipped of positions becomes one function of the position."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.signature import signature
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "merge_zipped_maps"
Dataset = tf.data.Dataset
SERIES = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def square(x):
    return x * x


def negative(x):
    return -x


def row(steps, x):
    return steps[x]


def endless(array):
    return Dataset.from_tensors(array).repeat()


def timeseries(**settings):
    return keras.utils.timeseries_dataset_from_array(SERIES[:-7], SERIES[7:, 0], 7, batch_size=4, **settings)


@pytest.mark.parametrize("keeps", Keeps)
def test_maps_of_one_range_become_one_map(keeps):
    dataset = Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).map(negative, num_parallel_calls=2)))
    assert_rewrites(RULE, dataset, "range(0, 9) | map(square and negative, calls=AUTOTUNE)", keeps)


def test_an_array_that_is_repeated_without_end_is_captured():
    dataset = Dataset.zip((endless(SERIES), Dataset.range(5, 50, 9))).map(row)
    pairs = Dataset.zip({"b": dataset, "a": (Dataset.range(10, 5, -1).prefetch(2), endless([1.0, 2.0]))})
    assert_rewrites(RULE, pairs, "range(0, 5) | map(row)")


@pytest.mark.parametrize("settings", [{}, {"sampling_rate": 2}, {"sequence_stride": 3}, {"shuffle": True, "seed": 5}])
def test_windows_of_keras_are_gathered_by_the_batch(settings):
    rules = [RULE, "drop_idle_stage", "shuffle_before_map", "vectorize_map"]
    dataset = timeseries(**settings)
    optimized = autopipe.optimize(dataset, rules=rules)
    assert {RULE, "vectorize_map"} <= set(optimized.plan.rules)
    assert optimized.cardinality() == dataset.cardinality()
    assert compare(timeseries(**settings), optimized, Keeps.SEQUENCE, epochs=2) is None


def test_windows_without_targets_stay_as_they_are():
    dataset = keras.utils.timeseries_dataset_from_array(SERIES, None, 7, batch_size=None)
    after = apply(RULE, dataset).after
    assert compare(dataset, autopipe.optimize(dataset, rules=[RULE]), Keeps.SEQUENCE) is None
    assert signature(after).cardinality == 54


def test_the_length_of_windows_becomes_known():
    dataset = timeseries()
    windows, _ = signature(apply(RULE, dataset).after).element_spec
    assert (dataset.element_spec[0].shape.as_list(), windows.shape.as_list()) == ([None, None, 3], [None, 7, 3])


def test_arrays_are_not_copied():
    series = tf.constant(SERIES)
    dataset = Dataset.zip((endless(series), Dataset.range(5))).map(row)
    merged = apply(RULE, Dataset.zip((dataset, Dataset.range(5)))).after
    assert any(captured is series for captured in merged.fn.concrete.captured_inputs)


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.zip((Dataset.range(9), Dataset.range(9))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(8).map(negative))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).shuffle(3))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.from_tensors(1))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).filter(lambda x: x > 1))),
        Dataset.zip((Dataset.range(9).map(square, num_parallel_calls=2, deterministic=False), Dataset.range(9))),
        Dataset.zip((Dataset.range(9).map(lambda x: tf.sparse.from_dense([x])), Dataset.range(9))),
        Dataset.range(9).map(square),
    ],
)
def test_leaves_what_is_not_known_by_its_position_and_what_has_other_lengths(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_a_function_that_draws():
    drawn = Dataset.range(9).map(lambda x: tf.random.uniform(()))
    assert_refuses(RULE, Dataset.zip((drawn, Dataset.range(9))), "draws random numbers")


def test_refuses_under_ignore_errors():
    failing = Dataset.range(9).map(lambda x: 6 // x)
    dataset = Dataset.zip((failing, Dataset.range(9).map(square))).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() leaves them out")
