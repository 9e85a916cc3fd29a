import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _load(jpeg: tf.Tensor) -> tf.Tensor:
    image = tf.cast(tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (128, 128)), tf.uint8)
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 127.5 - 1.0)
    return tf.image.random_brightness(image, 0.2)


def make() -> tf.data.Dataset:
    """Return the pipeline."""
    noise = np.random.default_rng(0).integers(0, 255, (375, 500, 3)).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(noise, quality=60).numpy()
    images = tf.data.Dataset.from_tensor_slices([jpeg] * 400).shuffle(400)
    return images.map(_load, num_parallel_calls=-1).batch(32).prefetch(-1)


CASE = RuleCase("cache_fixed_work", "decodes, resizes and augments in one function", "epoch", make)
