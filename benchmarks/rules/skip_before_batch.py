import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    rows = np.zeros((200_000, 32), np.float32)
    return tf.data.Dataset.from_tensor_slices(rows).batch(64).skip(3_000)


CASE = RuleCase("skip_before_batch", "takes up an epoch at step 3,000", "first element", _make)
