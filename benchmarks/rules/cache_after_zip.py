"""The case of the rule named as this file."""

import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    words = tf.data.Dataset.range(20_000).map(tf.strings.as_string).cache()
    numbers = tf.data.Dataset.range(20_000).map(tf.square).cache()
    return tf.data.Dataset.zip((words, numbers)).batch(100)


CASE = RuleCase("cache_after_zip", "caches words and numbers apart, and puts them side by side", "epoch", _make)
