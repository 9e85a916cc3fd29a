import tensorflow as tf

from benchmarks.rules._base import RuleCase
from benchmarks.rules._files import compressed_records


def _make() -> tf.data.Dataset:
    return tf.data.TFRecordDataset(compressed_records(), "GZIP").batch(50)


CASE = RuleCase("parallel_reads", "one reader over compressed files", "epoch", _make)
