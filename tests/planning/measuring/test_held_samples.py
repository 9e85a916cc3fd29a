"""A sample is taken once, and what is held of it stands in for the stages that made it."""

from dataclasses import replace

import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.held_samples import HeldSamples, without_end
from autopipe.planning.measuring.samples import take_sample
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset


@pytest.fixture
def taken():
    return []


@pytest.fixture
def source(taken):
    """Return what gives a source of the sample of a dataset, and notes of which pipeline one was taken."""
    held = HeldSamples()
    return lambda node: held.source(node, lambda sampled, count: taken.append(sampled) or take_sample(sampled, count))


def test_a_sample_is_taken_once_for_a_pipeline_and_what_differs_from_it_by_parallel_calls(source, taken):
    written = extract(Dataset.range(50).map(tf.square).batch(2))
    parallel = replace(written, num_parallel_calls=2, input=replace(written.input, num_parallel_calls=ir.AUTOTUNE))
    for node in (written, ir.Cache(input=parallel), written.input):
        assert len(list(build(source(node)))) == len(list(build(node)))
    assert taken == [written, written.input]


def test_the_samples_of_the_last_two_are_held(source, taken):
    first, second, third = (extract(Dataset.range(count)) for count in (10, 20, 30))
    for node in (first, second, first, third, second, third, first):
        source(node)
    assert taken == [first, second, third, first]


def test_maps_after_what_is_held_are_sampled_from_there(source, taken):
    made = extract(Dataset.range(50).map(tf.square).map(tf.negative))
    source(made.input)
    source(made)
    assert made.input not in set(trees.walk(taken[-1]))
    assert [int(x) for x in build(source(made))] == [-x * x for x in range(50)]


def test_of_a_smaller_last_batch_nothing_is_held(source):
    batches = list(build(source(extract(Dataset.range(10).batch(4)))))
    assert [len(batch) for batch in batches] == [4, 4]


def test_what_is_no_plain_tensor_is_not_held(source):
    with pytest.raises(MeasurementError, match="not a plain tensor"):
        source(extract(Dataset.range(9).window(3)))


def test_without_end_it_gives_the_sample_again_and_again(source):
    endless = build(without_end(source(extract(Dataset.range(3)))))
    assert [int(x) for x in endless.take(7)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_rows_of_ragged_tensors_are_held_as_what_maps_after_them_take(splits, source):
    rows = tf.RaggedTensor.from_row_lengths(tf.reshape(tf.range(160.0), (40, 4)), [3, 1, 3, 1] * 5)
    boxes = Dataset.from_tensor_slices((rows.with_row_splits_dtype(splits), tf.range(20))).skip(3)
    moved = extract(boxes.map(lambda box, number: (box + 1, number)))
    source(moved.input)
    assert [int(number) for _, number in build(source(moved))] == list(range(3, 20, 2))


def test_ragged_batches_are_held(source):
    batches = extract(Dataset.range(1, 40).map(tf.range).ragged_batch(2, drop_remainder=True).map(lambda x: x * 2))
    source(batches.input)
    assert [batch.to_list() for batch in build(source(batches))] == [batch.to_list() for batch in build(batches)]
