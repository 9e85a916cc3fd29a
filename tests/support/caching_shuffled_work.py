"""Pipelines that shuffle names before costly work, and what becomes of them where nothing but their stages decides."""

import tensorflow as tf

import autopipe
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps
from autopipe.runtime.dataset import OptimizedDataset
from sides import AlwaysFaster, apply

__all__ = ["COUNT", "caching", "counted", "rewritten", "slow", "work"]

Dataset = tf.data.Dataset
COUNT = 40


def counted(calls):
    @autopipe.stateless
    def count(x):
        calls.append(int(x))
        return x

    return lambda x: tf.ensure_shape(tf.numpy_function(count, [x], tf.int64), [])


def work(x):
    made = tf.strings.length(tf.strings.as_string(tf.range(x + 500)))
    return x + 0 * tf.cast(tf.reduce_sum(made), tf.int64)


def rewritten(written):
    """What becomes of a pipeline where nothing but its stages decides."""
    return apply("cache_fixed_work", written, Keeps.TRAINING, AlwaysFaster())


def caching(written):
    return OptimizedDataset(written, rewritten(written), Plan("none"))


def slow(calls, shuffled=lambda names: names.shuffle(COUNT)):
    return shuffled(Dataset.range(COUNT)).map(counted(calls)).batch(4)
