import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COLUMNS = 24


def _features(row: tf.Tensor) -> tf.Tensor:
    columns = tf.unstack(row + tf.random.normal((_COLUMNS,), stddev=0.01))
    scaled = [tf.clip_by_value((column - 0.1) / 0.9, -3.0, 3.0) for column in columns]
    logarithms = [tf.math.log1p(tf.abs(column)) for column in columns]
    return tf.stack([*scaled, *logarithms])


def _make() -> tf.data.Dataset:
    rows = np.random.default_rng(0).normal(size=(20_000, _COLUMNS)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).map(_features).batch(128)


CASE = RuleCase("vectorize_rest", "adds noise to rows, and makes features of each column", "epoch", _make)
