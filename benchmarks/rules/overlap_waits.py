import time

import tensorflow as tf

import autopipe
from benchmarks.rules._base import RuleCase


@autopipe.stateless
def _wait(number: int) -> int:
    time.sleep(0.02)
    return number


def _fetch(number: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(_wait, [number], tf.int64), [])


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.range(200).map(_fetch, num_parallel_calls=tf.data.AUTOTUNE).batch(8)


CASE = RuleCase("overlap_waits", "fetches what takes 20 ms to arrive", "epoch", _make, ram_budget=0)
