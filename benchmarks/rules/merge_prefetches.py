import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _load() -> tf.data.Dataset:
    rows = np.random.default_rng(0).uniform(0, 1, (20_000, 32)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).prefetch(16)


def _make() -> tf.data.Dataset:
    return _load().prefetch(16).batch(64)


CASE = RuleCase("merge_prefetches", "prefetches what is prefetched", "epoch", _make)
