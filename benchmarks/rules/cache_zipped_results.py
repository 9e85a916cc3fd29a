import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COUNT = 200


def _load(jpeg: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (96, 96))


def _make() -> tf.data.Dataset:
    noise = np.random.default_rng(0).integers(0, 255, (375, 500, 3)).astype(np.uint8)
    jpegs = tf.data.Dataset.from_tensor_slices([tf.io.encode_jpeg(noise, quality=60).numpy()] * _COUNT)
    triplets = tf.data.Dataset.zip((jpegs, jpegs, jpegs.shuffle(_COUNT)))
    return triplets.map(lambda *images: tuple(map(_load, images)), num_parallel_calls=-1).batch(16).prefetch(-1)


CASE = RuleCase("cache_zipped_results", "decodes triplets with other negatives in each epoch", "epoch", _make)
