"""Pipelines whose elements are kept on disk, and what is there."""

from pathlib import Path

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset


def numbers(count=10, factor=3):
    return extract(Dataset.range(count).map(lambda x: tf.fill([20], x * factor)))


def failing():
    """A pipeline of the same type none of whose elements can be made: what comes from it was cached."""

    def fail(x):
        with tf.control_dependencies([tf.debugging.Assert(x < 0, ["made anew"])]):
            return tf.fill([20], x)

    return extract(Dataset.range(10).map(fail))


def cached(tree, filename):
    return build(ir.Cache(input=tree, filename=filename))


def first_numbers(dataset):
    return [number for batch in dataset.batch(1000) for number in batch[:, 0].numpy().tolist()]


def expected(count=10, factor=3):
    return [x * factor for x in range(count)]


def attempts(folder):
    return [path for path in Path(folder).glob("*/*") if path.is_dir()]
