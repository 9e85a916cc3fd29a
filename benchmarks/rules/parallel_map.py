import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _augment(image: tf.Tensor) -> tf.Tensor:
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 255.0)
    return tf.image.random_contrast(tf.image.random_hue(image, 0.1), 0.8, 1.2)


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).integers(0, 255, (300, 160, 160, 3), dtype=np.uint8)
    return tf.data.Dataset.from_tensor_slices(images).map(_augment).batch(32)


CASE = RuleCase("parallel_map", "augments at random, one image at a time", "epoch", _make)
