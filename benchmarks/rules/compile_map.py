import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)


def _augment(image: tf.Tensor) -> tf.Tensor:
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 255.0)
    image = tf.image.random_brightness(image, 0.1)
    return (image - tf.constant(_MEAN)) / tf.constant(_DEVIATION)


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).integers(0, 255, (1_000, 192, 192, 3), np.uint8)
    return tf.data.Dataset.from_tensor_slices(images).map(_augment, tf.data.AUTOTUNE).batch(32).prefetch(1)


CASE = RuleCase("compile_map", "flips, brightens and normalizes cached images", "epoch", _make)
