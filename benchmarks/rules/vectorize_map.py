import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _scale(row: tf.Tensor) -> tf.Tensor:
    return row / 255.0 - 0.5


def _make() -> tf.data.Dataset:
    rows = np.random.default_rng(0).uniform(0, 255, (20_000, 32)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).map(_scale).batch(128).prefetch(1)


CASE = RuleCase("vectorize_map", "scales rows in memory", "epoch", _make)
