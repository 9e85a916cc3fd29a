import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    rows = np.zeros((20_000, 1024), np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).batch(512, num_parallel_calls=8).take(1).repeat(20)


CASE = RuleCase("take_before_batch", "one batch of many, stacked in parallel", "epoch", _make)
