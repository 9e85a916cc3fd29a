import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    signals = np.ones((2_000, 1_024), np.float32)
    return tf.data.Dataset.from_tensor_slices(signals).map(tf.signal.dct).cache().take(400).batch(50)


CASE = RuleCase("select_before_cache", "validates on the first fifth of cached signals", "epoch", _make)
