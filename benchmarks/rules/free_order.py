import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _uneven(x: tf.Tensor) -> tf.Tensor:
    """Take a hundred times as long for one element in forty."""
    turns = tf.where(x % 40 == 0, 4000, 40)
    return tf.while_loop(lambda i, _: i < turns, lambda i, total: (i + 1, total + 1.0), (0, 0.0))[1]


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.range(2000).map(_uneven, num_parallel_calls=2).shuffle(256).batch(50)


CASE = RuleCase("free_order", "elements of which some take a hundred times as long", "epoch", _make)
