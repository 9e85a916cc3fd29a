import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _decode(encoded: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(encoded, channels=3), (96, 96))


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (160, 160, 3), dtype=np.uint8)
    images = tf.data.Dataset.from_tensors(tf.io.encode_jpeg(noise)).repeat(600)
    return images.map(_decode, num_parallel_calls=tf.data.AUTOTUNE).shard(4, 0).batch(32)


CASE = RuleCase("select_before_map", "decodes images for one worker of four", "epoch", _make)
