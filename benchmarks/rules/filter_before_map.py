import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _decode(jpeg: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (96, 96)), label


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3)).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(noise).numpy()
    labels = np.arange(300) % 4
    return tf.data.Dataset.from_tensor_slices(([jpeg] * 300, labels)).map(_decode).filter(lambda _, label: label == 1)


CASE = RuleCase("filter_before_map", "decodes images, then keeps one class of four", "epoch", _make)
