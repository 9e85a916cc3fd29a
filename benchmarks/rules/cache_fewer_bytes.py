import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_SIDE = 128
_BUDGET = 450 * 2**20


def _decode(jpeg: tf.Tensor) -> tf.Tensor:
    image = tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (_SIDE, _SIDE, 3))
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def _make() -> tf.data.Dataset:
    draw = np.random.default_rng(0)
    noise = (draw.integers(0, 255, (_SIDE, _SIDE, 3), dtype=np.uint8) for _ in range(8))
    jpegs = [tf.io.encode_jpeg(each).numpy() for each in noise] * 400
    return tf.data.Dataset.from_tensor_slices(jpegs).map(_decode).cache().batch(32)


CASE = RuleCase("cache_fewer_bytes", "caches floats that were bytes", "memory", _make, ram_budget=_BUDGET)
