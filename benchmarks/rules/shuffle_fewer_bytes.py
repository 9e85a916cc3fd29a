import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_SIDE = 256
_SMALL = 96


def _decode(jpeg: tf.Tensor) -> tf.Tensor:
    image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (_SMALL, _SMALL), method="nearest")
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def _make() -> tf.data.Dataset:
    draw = np.random.default_rng(0)
    noise = (draw.integers(0, 255, (_SIDE, _SIDE, 3), dtype=np.uint8) for _ in range(8))
    jpegs = [tf.io.encode_jpeg(each).numpy() for each in noise]
    return tf.data.Dataset.from_tensor_slices(jpegs).repeat(300).map(_decode).shuffle(2000).batch(32)


CASE = RuleCase("shuffle_fewer_bytes", "shuffles small images of large JPEGs", "memory", _make)
