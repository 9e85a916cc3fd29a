import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _random_crop(jpeg: tf.Tensor) -> tf.Tensor:
    return tf.image.random_crop(tf.io.decode_jpeg(jpeg, channels=3), (224, 224, 3))


def _make() -> tf.data.Dataset:
    draw = np.random.default_rng(0)
    smooth = tf.image.resize(draw.integers(0, 255, (24, 32, 3)), (720, 960), "bicubic")
    jpeg = tf.io.encode_jpeg(tf.cast(tf.clip_by_value(smooth, 0, 255), tf.uint8)).numpy()
    return tf.data.Dataset.from_tensor_slices([jpeg] * 200).map(_random_crop, num_parallel_calls=-1).batch(20)


CASE = RuleCase("crop_while_decoding", "crops 224x224 at random from photographs of 960x720", "epoch", _make)
