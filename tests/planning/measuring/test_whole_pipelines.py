"""Whole pipelines are timed as a consumer sees them from the second epoch on."""

import time

import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import measure
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset


@pytest.mark.timed
def test_an_epoch_takes_as_long_as_its_elements_do_once_caches_are_full():
    made = extract(Dataset.range(1000).map(lambda x: tf.random.uniform((200, 200)) + tf.cast(x, tf.float32)))
    read = ir.Cache(input=made)
    measurements = SampleMeasurements()
    assert all(measurements.epoch_outlasts(epoch, 0.0) for epoch in (made, read))
    assert not any(measurements.epoch_outlasts(epoch, 1000.0) for epoch in (made, read))
    half = next(2.0**-power for power in range(20) if measurements.epoch_outlasts(made, 2.0**-power))
    assert not measurements.epoch_outlasts(read, half)
    with pytest.raises(MeasurementError):
        measurements.epoch_outlasts(ir.Repeat(input=made), 1.0)


def test_a_shuffle_of_a_whole_dataset_after_a_cache_is_timed_with_few():
    """The cache is timed as one without end, of which a buffer for all would never be full."""
    lines = Dataset.range(50).filter(lambda x: x >= 0)
    written = extract(lines.cache().shuffle(lines.cardinality()).map(tf.square).batch(2))
    calls = ir.Prefetch(input=written)
    assert SampleMeasurements(seconds=1.0).whole_speed(written, calls)[0] > 0


def test_a_cache_is_timed_as_one_that_is_full(monkeypatch):
    timed = []
    monkeypatch.setattr(
        measure, "compare_speeds", lambda *sides, **named: (timed.extend(sides[:2]), (1.0, 1.0, 1.0))[1]
    )
    written = extract(Dataset.range(50).map(tf.square).cache().batch(2))
    SampleMeasurements().whole_speed(written, ir.Prefetch(input=written.input.input, buffer_size=3))
    cached, _ = ([type(node) for node in trees.walk(extract(side))] for side in timed)
    assert ir.Cache in cached
    assert ir.Map not in cached


@pytest.mark.parametrize("keep", [lambda made: made, lambda made: made.cache()], ids=["nothing kept", "a cache"])
def test_of_the_time_some_is_kept_for_the_whole_whatever_is_to_be_known_of_its_parts(keep):
    written = extract(Dataset.range(50).map(tf.square).apply(keep).map(tf.abs).batch(2))
    measurements = SampleMeasurements(seconds=10.0)
    measurements._time.began = time.perf_counter() - 8.5
    assert measurements.exhausted == "the 10 seconds for measuring are used up"
    with pytest.raises(MeasurementError, match="used up"):
        measurements.speed(written.input.input, written.input, over=written.input.input)
    assert measurements.whole_speed(written, ir.Prefetch(input=written.input, buffer_size=3))[0] > 0
    assert measurements.exhausted
    measurements._time.began -= 2
    with pytest.raises(MeasurementError, match="used up"):
        measurements.whole_speed(written, ir.Prefetch(input=written, buffer_size=5))
