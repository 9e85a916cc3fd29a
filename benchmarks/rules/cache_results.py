import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COUNT, _TAKEN = 400, 320


def _load(jpeg: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (128, 128))


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (375, 500, 3)).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(noise, quality=60).numpy()
    images = tf.data.Dataset.from_tensor_slices([jpeg] * _COUNT).shuffle(_COUNT).take(_TAKEN)
    return images.map(_load, num_parallel_calls=-1).batch(32).prefetch(-1)


CASE = RuleCase("cache_results", "decodes other photographs of a shuffle in each epoch", "epoch", _make)
