"""Pipelines with one stage each that costs many times what the others cost; its line ends in ``# <name>``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

__all__ = ["PLANTED", "line_of"]

Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE


def _scale(x: Any) -> Any:
    return x / 255.0


def _to_float(x: Any) -> Any:
    return tf.cast(x, tf.float32)


def _corner(x: Any) -> Any:
    return x[:4, :4]


def _in_python(function: Callable[..., Any], kind: tf.DType = tf.float32) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(function, [x], kind), [])

    return call


def slow_reader() -> tf.data.Dataset:
    """Return one that reads from a slow generator."""

    def rows():
        for number in range(100_000):
            time.sleep(0.01)
            yield np.full(32, number, "float32")

    dataset = Dataset.from_generator(rows, output_signature=tf.TensorSpec((32,), tf.float32))  # slow_reader
    dataset = dataset.map(_scale, num_parallel_calls=AUTOTUNE)
    return dataset.batch(4).prefetch(AUTOTUNE)


def heavy_decode() -> tf.data.Dataset:
    """Return one that decodes large photographs."""
    photographs = np.random.default_rng(0).integers(0, 255, (4, 800, 800, 3), dtype=np.uint8)
    files = [tf.io.encode_jpeg(each).numpy() for each in photographs]

    def decode(file):
        return tf.image.resize(tf.io.decode_jpeg(file, channels=3), (32, 32))

    return (
        Dataset.from_tensor_slices(files)
        .repeat()
        .shuffle(8)
        .map(decode, num_parallel_calls=AUTOTUNE)  # heavy_decode
        .map(_scale, num_parallel_calls=AUTOTUNE)
        .batch(4)
        .prefetch(AUTOTUNE)
    )


def python_function() -> tf.data.Dataset:
    """Return one that computes in Python, which holds the GIL."""

    def count(x):
        total = 0
        for number in range(100_000):
            total += number
        return np.float32(total + x)

    dataset = Dataset.range(1_000_000).map(_to_float, num_parallel_calls=AUTOTUNE)
    dataset = dataset.map(_in_python(count), num_parallel_calls=AUTOTUNE)  # python_function
    return dataset.batch(4).prefetch(AUTOTUNE)


def tiny_interleave() -> tf.data.Dataset:
    """Return one that reads from two slow sources at once, and no more."""

    def fetch(x):
        time.sleep(0.01)
        return np.float32(x)

    def rows(number):
        return Dataset.range(50).map(_in_python(fetch))

    return (
        Dataset.range(1_000_000)
        .interleave(  # tiny_interleave
            rows,
            cycle_length=2,
            num_parallel_calls=2,
        )
        .map(_scale, num_parallel_calls=AUTOTUNE)
        .batch(4)
        .prefetch(AUTOTUNE)
    )


def concatenation() -> tf.data.Dataset:
    """Return one that joins large arrays: the memory limits it."""
    wide = tf.zeros((1024, 1024))

    def join(x):
        return tf.concat([wide + x] * 8, 0)

    return (
        Dataset.range(1_000_000)
        .map(_to_float)
        .map(join, num_parallel_calls=AUTOTUNE)  # concatenation
        .map(_corner, num_parallel_calls=AUTOTUNE)
        .batch(4)
        .prefetch(AUTOTUNE)
    )


def waiting() -> tf.data.Dataset:
    """Return a pipeline that waits for something outside of the machine, with too few calls at once."""

    def fetch(x):
        time.sleep(0.02)
        return np.int64(x)

    return Dataset.range(1_000_000).map(_in_python(fetch, tf.int64), num_parallel_calls=2).prefetch(AUTOTUNE)


PLANTED = {
    "slow_reader": "generator",
    "heavy_decode": "map(decode, calls=AUTOTUNE)",
    "python_function": "map(call, calls=AUTOTUNE)",
    "tiny_interleave": "interleave(rows, cycle=2, calls=2)",
    "concatenation": "map(join, calls=AUTOTUNE)",
}


def line_of(name: str) -> str:
    """Return the planted line, as ``planted.py:12``."""
    with open(__file__) as file:
        (number,) = (number for number, line in enumerate(file, 1) if line.endswith(f"# {name}\n"))
    return f"planted.py:{number}"
