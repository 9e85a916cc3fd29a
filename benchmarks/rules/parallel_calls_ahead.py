import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _augment(image: tf.Tensor) -> tf.Tensor:
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 255.0)
    return tf.image.random_brightness(image, 0.1)


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).integers(0, 255, (1000, 160, 160, 3), dtype=np.uint8)
    dataset = tf.data.Dataset.from_tensor_slices(images).cache().shuffle(100)
    return dataset.map(_augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)


CASE = RuleCase("parallel_calls_ahead", "flips and brightens, with AUTOTUNE", "epoch", _make)
