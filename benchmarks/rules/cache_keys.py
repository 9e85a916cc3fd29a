import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    sentences = tf.data.Dataset.range(10_000).map(lambda number: tf.range(number % 100 + 1))
    return sentences.cache().bucket_by_sequence_length(tf.size, [25, 50, 75], [128, 64, 32, 32])


CASE = RuleCase("cache_keys", "sorts cached sentences into buckets by length", "epoch", _make)
