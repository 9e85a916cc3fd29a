"""A pipeline whose best settings are known, what there is to choose of it, and a bench that makes up how fast it is."""

import time

import numpy as np
import tensorflow as tf
from optuna.distributions import CategoricalDistribution

import autopipe
from autopipe.search_spaces import default
from autopipe.tuning.offline.choices import Choices
from autopipe.tuning.offline.workbench import Pair


def wait(x):
    return tf.ensure_shape(tf.numpy_function(_sleep, [x], tf.int64), [])


def _sleep(x):
    time.sleep(0.01)
    return np.int64(x)


def waiting():
    return tf.data.Dataset.range(4000).map(wait, num_parallel_calls=2).batch(4).prefetch(2)


def choices(dataset=None, others=None):
    return Choices.of(autopipe.optimize(dataset or waiting(), seconds=0), default, others)


def of_buffers(*sizes, others=None):
    def space(knobs, machine):
        return {"prefetch.buffer_size": CategoricalDistribution(sizes)}

    return Choices.of(autopipe.optimize(waiting(), seconds=0), space, others)


class Bench:
    """Says how fast a setting is, by what it is."""

    def __init__(self, speed):
        self.speed = speed
        self.compared = []

    def pairs(self, reference, challenger):
        while True:
            self.compared.append(challenger)
            yield Pair(self.speed(challenger) / self.speed(reference), 0.0)
