import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _decode(jpeg: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (64, 64))


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (128, 160, 3)).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(noise).numpy()
    return tf.data.Dataset.from_tensor_slices([jpeg] * 500).cache().map(_decode, num_parallel_calls=-1).batch(50)


CASE = RuleCase("cache_after_map", "caches files, then decodes them in every epoch", "epoch", _make)
