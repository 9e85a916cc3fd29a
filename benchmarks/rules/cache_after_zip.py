import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COLUMNS = "abcdef"


def _make() -> tf.data.Dataset:
    numbers = tf.data.Dataset.range(20_000)
    columns = {
        name: numbers.map(lambda x, name=name: tf.strings.join([name, tf.strings.as_string(x)])).cache()
        for name in _COLUMNS
    }
    return tf.data.Dataset.zip(columns).shuffle(1000).batch(100)


CASE = RuleCase("cache_after_zip", "caches each of six columns, and puts them side by side", "epoch", _make)
