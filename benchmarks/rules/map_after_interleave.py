import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import compressed_records


def _means(record: tf.Tensor) -> tf.Tensor:
    rows = tf.reshape(tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float32), (-1, 32))
    return tf.reduce_mean(tf.sort(rows), axis=1)


def _read(name: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(name, "GZIP").map(_means)


def _make() -> tf.data.Dataset:
    names = tf.data.Dataset.from_tensor_slices(compressed_records())
    return names.interleave(_read, cycle_length=4).batch(50).prefetch(-1)


CASE = RuleCase("map_after_interleave", "parses records in the function that opens files", "epoch", _make)
