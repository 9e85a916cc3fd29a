import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COUNT = 200


def _view(jpeg: tf.Tensor) -> tf.Tensor:
    image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (128, 128)) / 255.0
    return tf.image.random_flip_left_right(tf.image.random_crop(image, (96, 96, 3)))


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (375, 500, 3)).astype(np.uint8)
    jpegs = [tf.io.encode_jpeg(noise, quality=60).numpy()] * _COUNT
    views = (tf.data.Dataset.from_tensor_slices(jpegs).shuffle(_COUNT, seed=0).map(_view, -1) for _ in range(2))
    return tf.data.Dataset.zip(tuple(views)).batch(16).prefetch(-1)


CASE = RuleCase("join_equal_sides", "decodes each image once for two random views of it", "epoch", _make)
