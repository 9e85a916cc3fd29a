import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import csv_file


def _make() -> tf.data.Dataset:
    return tf.data.experimental.make_csv_dataset(csv_file(), 256, label_name="number_0", num_epochs=1)


CASE = RuleCase("cache_inner_work", "make_csv_dataset, as in TensorFlow's tutorials", "epoch", _make)
