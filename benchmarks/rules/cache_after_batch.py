import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    images = np.zeros((1000, 96, 96, 3), np.float32)
    return tf.data.Dataset.from_tensor_slices(images).cache().batch(50)


CASE = RuleCase("cache_after_batch", "caches images to validate with, and stacks them in every epoch", "epoch", _make)
