import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _is_labelled(row: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    return label >= 0


def _make() -> tf.data.Dataset:
    generator = np.random.default_rng(0)
    rows = generator.uniform(0, 1, (60_000, 16)).astype(np.float32)
    labels = generator.integers(-1, 3, 60_000)
    return tf.data.Dataset.from_tensor_slices((rows, labels)).filter(_is_labelled).batch(128).prefetch(1)


CASE = RuleCase("filter_batches", "leaves out rows without a label", "epoch", _make)
