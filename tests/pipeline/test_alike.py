"""Pipelines are alike if they are made of equal stages that read equal elements."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline.alike import alike, same_arguments
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
ROWS = np.arange(60, dtype=np.float32).reshape(20, 3)


def square(x):
    return x * x


def shuffled(seed=1, size=20, **settings):
    return Dataset.from_tensor_slices(ROWS).shuffle(size, seed=seed, **settings)


@pytest.mark.parametrize(
    "make",
    [
        shuffled,
        lambda: Dataset.range(9).repeat(2).batch(4),
        lambda: Dataset.from_tensors({"a": ROWS, "b": "text", "c": 1.5, "d": True}),
        lambda: Dataset.from_tensor_slices([["a", "b"], ["", "c"]]).take(1),
        lambda: Dataset.from_tensor_slices([float("nan"), 1.0]),
        lambda: tf.data.TextLineDataset(["one", "two"]).skip(1),
        lambda: Dataset.zip((Dataset.range(3), shuffled())),
        lambda: shuffled(name="a"),
    ],
)
def test_two_of_the_same_are_alike(make):
    assert alike(extract(make()), extract(make()))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (shuffled(), shuffled(seed=2)),
        (shuffled(), shuffled(size=19)),
        (shuffled(), shuffled(reshuffle_each_iteration=False)),
        (shuffled(), Dataset.from_tensor_slices(ROWS + 1).shuffle(20, seed=1)),
        (Dataset.from_tensor_slices(ROWS), Dataset.from_tensor_slices(ROWS[:, :2])),
        (Dataset.from_tensor_slices(ROWS), Dataset.from_tensors(ROWS)),
        (Dataset.from_tensor_slices([0.0]), Dataset.from_tensor_slices([-0.0])),
        (Dataset.from_tensor_slices({"a": [1]}), Dataset.from_tensor_slices({"b": [1]})),
        (Dataset.from_tensor_slices(["a", "b"]), Dataset.from_tensor_slices(["a", "c"])),
        (Dataset.from_tensor_slices([*"abcdefghijklmnopqrs"]), Dataset.from_tensor_slices([*"abcdefghijklmnopqrS"])),
        (Dataset.from_tensors("a"), Dataset.from_tensors("b")),
        (Dataset.range(9), Dataset.range(8)),
        (Dataset.range(9), Dataset.range(9, output_type=tf.int32)),
        (Dataset.range(9).batch(2), Dataset.range(9).batch(2, drop_remainder=True)),
        (Dataset.range(9).map(square), Dataset.range(9).map(square)),
        (Dataset.zip((Dataset.range(3), Dataset.range(3))), Dataset.zip((Dataset.range(3),))),
        (tf.data.TextLineDataset(["one"]), tf.data.TextLineDataset(["two"])),
    ],
)
def test_others_are_not(first, second):
    assert not alike(extract(first), extract(second))


def test_generators_are_alike_only_if_they_are_one():
    spec = tf.TensorSpec([], tf.int64)
    one, other = (Dataset.from_generator(lambda: iter([1]), output_signature=spec) for _ in range(2))
    assert alike(extract(one.batch(2)), extract(one.batch(2)))
    assert not alike(extract(one), extract(other))


def test_large_arrays_are_not_compared_by_value(monkeypatch):
    monkeypatch.setattr("autopipe.pipeline.alike._MOST_BYTES", ROWS.nbytes - 1)
    one = Dataset.from_tensor_slices(tf.constant(ROWS))
    assert not alike(extract(one), extract(Dataset.from_tensor_slices(tf.constant(ROWS))))
    assert alike(extract(one.take(3)), extract(one.take(3)))


def test_a_stage_has_the_same_arguments_whatever_it_reads():
    first, second = extract(Dataset.range(3).batch(2)), extract(Dataset.range(9).map(square).batch(2))
    assert same_arguments(first, second)
    assert not same_arguments(first, extract(Dataset.range(3).batch(3)))
    assert not same_arguments(first, extract(Dataset.range(3).repeat(2)))


def test_zeros_at_the_end_of_a_string_count():
    assert not alike(*(extract(tf.data.Dataset.from_tensors(text)) for text in (b"a\0", b"a")))
