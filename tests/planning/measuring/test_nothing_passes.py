"""A sample of which nothing passes is told from one of which something does, in any stage that may drop elements."""

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import nothing_passes
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.nothing_passes import refuse_if_nothing_passes
from autopipe.rules import MeasurementError

Dataset = tf.data.Dataset

pytestmark = pytest.mark.timeout(120)


def none_of(x):
    return x > 9


def nothing(_):
    return Dataset.range(0)


def fails(_):
    return tf.strings.to_number("none", tf.int64)


DROPPING = {
    "filter": lambda numbers: numbers.filter(none_of),
    "flat_map": lambda numbers: numbers.flat_map(nothing),
    "interleave": lambda numbers: numbers.interleave(nothing, cycle_length=2),
    "group_by_window": lambda numbers: numbers.group_by_window(lambda x: x, lambda _key, group: group.take(0), 2),
    "ignore_errors": lambda numbers: numbers.map(fails).ignore_errors(),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", DROPPING)
def test_a_stage_that_drops_all_is_named(kind):
    dropped = DROPPING[kind](Dataset.range(5).repeat())
    with pytest.raises(MeasurementError, match=f"none passes {kind}"):
        refuse_if_nothing_passes(extract(dropped.map(lambda x: x + 1).batch(2)))


def test_a_part_to_choose_from_that_never_gives_one_is_named():
    parts = Dataset.range(5).repeat(), Dataset.range(5).repeat().filter(none_of)
    with pytest.raises(MeasurementError, match="none passes filter"):
        refuse_if_nothing_passes(extract(Dataset.sample_from_datasets(parts, seed=1).batch(2)))


def test_of_two_filters_the_one_that_drops_the_rest_is_named():
    numbers = Dataset.range(5).repeat().filter(lambda x: x > 2)
    with pytest.raises(MeasurementError, match="none passes filter") as refused:
        refuse_if_nothing_passes(extract(numbers.filter(none_of)))
    assert "none_of" in str(refused.value)


def test_the_only_stage_that_may_drop_is_named_without_another_look(monkeypatch):
    looked_at = []
    monkeypatch.setattr(nothing_passes, "_gives_any", looked_at.append)
    endless = extract(Dataset.range(5).repeat().filter(none_of).batch(2))
    with pytest.raises(MeasurementError, match="none passes filter"):
        refuse_if_nothing_passes(endless)
    assert looked_at == [endless]


def test_one_that_passes_is_enough():
    refuse_if_nothing_passes(extract(Dataset.range(5).repeat().filter(lambda x: x == 4).batch(64)))


def test_a_window_longer_than_the_sample_is_filled_by_its_repetitions():
    windows = Dataset.range(5).repeat().window(64, drop_remainder=True)
    refuse_if_nothing_passes(extract(windows.flat_map(lambda window: window.batch(64))))


def test_two_pipelines_are_not_compared_on_a_sample_that_their_filter_drops_whole():
    batches = Dataset.range(4000).map(lambda x: x * 2).cache().batch(2).filter(lambda x: x[0] > 7000)
    tree = extract(batches)
    with pytest.raises(MeasurementError, match="none passes filter"):
        SampleMeasurements().whole_speed(tree, extract(batches.prefetch(1).map(lambda x: x)))


def test_a_pipeline_sorted_by_what_a_filter_looks_at_is_optimized_in_time():
    features, classes = np.random.default_rng(0).random((20_000, 8), np.float32), np.repeat([0, 1], 10_000)
    rows = Dataset.from_tensor_slices((features, classes)).map(lambda x, y: (x * 2 + 1, y)).batch(32)
    second = rows.filter(lambda x, y: y[0] == 1)
    ours, theirs = (list(each.as_numpy_iterator()) for each in (autopipe.optimize(second), second))
    assert [batch.tobytes() for batch, _ in ours] == [batch.tobytes() for batch, _ in theirs]
