import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import compressed_records


def _read(file: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(file, "GZIP")


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(compressed_records()).flat_map(_read).batch(50)


CASE = RuleCase("parallel_flat_map", "reads compressed files one after the other", "epoch", _make)
