import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _words(line: tf.Tensor) -> tf.Tensor:
    return tf.strings.split(line)


def _ids(words: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(words, 1_000)


def _window(ids: tf.Tensor) -> tf.Tensor:
    return ids[:8]


def _pair(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return ids[:-1], ids[1:]


def _make() -> tf.data.Dataset:
    lines = tf.data.Dataset.from_tensors("the quick brown fox jumps over the lazy dog again").repeat(20_000)
    for step in (_words, _ids, _window, _pair):
        lines = lines.map(step, num_parallel_calls=tf.data.AUTOTUNE)
    return lines.batch(128)


CASE = RuleCase("merge_maps", "turns words into numbers in four steps", "epoch", _make)
