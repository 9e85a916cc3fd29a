import keras
import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    series = np.zeros((8000, 8), np.float32)
    return keras.utils.timeseries_dataset_from_array(series, series[:, 0], 60, batch_size=256)


CASE = RuleCase("merge_zipped_maps", "windows over a series, as Keras makes them", "epoch", _make)
