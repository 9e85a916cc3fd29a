import keras
import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).uniform(0, 1, (400, 160, 160, 3)).astype(np.float32)
    augment = keras.Sequential([keras.layers.RandomRotation(0.1, seed=1), keras.layers.RandomFlip(seed=2)])
    return tf.data.Dataset.from_tensor_slices(images).map(lambda image: augment(image, training=True)).batch(32)


CASE = RuleCase("parallel_after_draws", "rotates and flips with Keras layers", "epoch", _make)
