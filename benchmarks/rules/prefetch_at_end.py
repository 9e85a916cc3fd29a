import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _prepare(images: tf.Tensor) -> tf.Tensor:
    larger = tf.image.resize(tf.cast(images, tf.float32) / 255.0, (96, 96), antialias=True)
    return tf.image.adjust_brightness(larger, tf.random.uniform((), -0.1, 0.1))


def _make() -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    images = np.random.default_rng(0).integers(0, 255, (640, 64, 64, 3), dtype=np.uint8)
    return tf.data.Dataset.from_tensor_slices(images).batch(16).map(_prepare).with_options(options)


CASE = RuleCase(
    "prefetch_at_end", "resizes batches for steps of 8 ms, AUTOTUNE off", "epoch", _make, step_seconds=0.008
)
