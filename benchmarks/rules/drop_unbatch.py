import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).uniform(0, 1, (4_000, 64, 64, 3)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(images).batch(32).unbatch().batch(128)


CASE = RuleCase("drop_unbatch", "makes batches of another size", "epoch", _make)
