import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    rows = np.zeros((2_000, 1_024), np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).map(lambda row: row + 1).repeat().cache().batch(100)


CASE = RuleCase("cache_before_repeat", "caches an endless repeat, for 10 epochs", "memory", _make, elements=200)
