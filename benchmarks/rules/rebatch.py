import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _rows(shard: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.io.decode_raw(shard, tf.float32), [-1, 8])


def _make() -> tf.data.Dataset:
    drawn = np.random.default_rng(0)
    shards = [drawn.uniform(0, 1, (5_000 + size, 8)).astype(np.float32).tobytes() for size in range(100)]
    return tf.data.Dataset.from_tensor_slices(shards).map(_rows).unbatch().batch(512)


CASE = RuleCase("rebatch", "cuts batches from shards of rows", "epoch", _make)
