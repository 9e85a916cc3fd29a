import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.range(2000).repeat().shuffle(1000)


CASE = RuleCase("shuffle_before_repeat", "shuffles what repeats without end", "distinct", _make, elements=2000)
