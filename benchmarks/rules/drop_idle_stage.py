import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make(shuffle: int = 1, limit: int = -1, read_ahead: int = 0) -> tf.data.Dataset:
    numbers = tf.data.Dataset.range(500_000)
    return numbers.shuffle(shuffle).take(limit).repeat(1).prefetch(read_ahead).batch(256)


CASE = RuleCase("drop_idle_stage", "a configuration with much turned off", "epoch", _make)
