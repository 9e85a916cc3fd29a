import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import compressed_records


def _means(record: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.reshape(tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float32), (-1, 32)), axis=1)


def _read(name: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(name, "GZIP")


def _make() -> tf.data.Dataset:
    names = tf.data.Dataset.from_tensor_slices(compressed_records()).shuffle(40)
    records = names.interleave(_read, num_parallel_calls=-1, deterministic=False)
    return records.map(_means, num_parallel_calls=-1).shuffle(500).batch(50).prefetch(-1)


CASE = RuleCase("cache_free_order", "reads shuffled files several at once, and shuffles rows", "epoch", _make)
