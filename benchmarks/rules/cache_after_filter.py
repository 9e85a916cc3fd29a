import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _is_short(line: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(line) < 4


def _make() -> tf.data.Dataset:
    lines = tf.data.Dataset.range(20_000).map(tf.strings.as_string, num_parallel_calls=-1)
    return lines.cache().filter(_is_short).shuffle(1000)


CASE = RuleCase("cache_after_filter", "caches lines of text, most of which are too long", "epoch", _make)
