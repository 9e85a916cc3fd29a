import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import compressed_records


def _read(file: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(file, "GZIP")


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(compressed_records()).interleave(_read, cycle_length=4).batch(50)


CASE = RuleCase("parallel_interleave", "interleaves compressed files", "epoch", _make)
