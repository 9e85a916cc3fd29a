import keras
import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    images = np.random.default_rng(0).uniform(0, 255, (400, 224, 224, 3)).astype(np.float32)
    prepare = keras.applications.resnet50.preprocess_input
    return tf.data.Dataset.from_tensor_slices(images).map(prepare, tf.data.AUTOTUNE).batch(32).prefetch(1)


CASE = RuleCase("cheaper_ops", "images through Keras' preprocess_input of ResNet-50", "epoch", _make)
