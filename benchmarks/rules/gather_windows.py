import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_WINDOW = 100


def _make() -> tf.data.Dataset:
    series = np.random.default_rng(0).normal(size=(20_000, 4)).cumsum(axis=0).astype(np.float32)
    windows = tf.data.Dataset.from_tensor_slices(series).window(_WINDOW, shift=1, drop_remainder=True)
    return windows.flat_map(lambda window: window.batch(_WINDOW)).shuffle(500).batch(64).prefetch(1)


CASE = RuleCase("gather_windows", "slides windows over a series in memory", "epoch", _make)
