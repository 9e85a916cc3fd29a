"""Retune a pipeline after every element that is read."""

from contextlib import contextmanager
from itertools import islice

import numpy as np
import tensorflow as tf

from autopipe.pipeline.knobs import read_knobs
from autopipe.runtime.readings import observe, stop_observing

SCHEDULE = [(1, 1), (4, 8), (2, 0), (-1, 2), (3, 5)]
MOST = 40


def setting(dataset, step):
    """Other values for every knob, in a cycle."""
    calls, threads = SCHEDULE[step % len(SCHEDULE)]
    values = {
        "num_parallel_calls": calls,
        "use_unbounded_threadpool": step % 2,
        "cycle_length": step % 4 + 1,
        "block_length": step % 3 + 1,
        "buffer_size": step % 7 + 1,
        "size": threads,
        "max_intra_op_parallelism": step % 3,
    }
    knobs = read_knobs(dataset.tree)
    return {knob.name: within(knob, values[knob.field]) for knob in knobs}


def within(knob, value):
    """That value, or the limit next to it; above a least value of many, so much above it."""
    value += knob.least if knob.least > 1 else 0
    return min(value, knob.most or value)


def flat(elements):
    return [
        np.asarray(leaf).tolist()
        for element in islice(elements, MOST)
        for leaf in tf.nest.flatten(element, expand_composites=True)
    ]


def read_retuning(dataset, most=MOST):
    out = []
    for step, element in enumerate(islice(dataset, most)):
        out.append(element)
        dataset.retune(setting(dataset, step))
    return out


def numbers(elements):
    return sorted(np.concatenate([np.ravel(each) for each in flat(elements)]).tolist())


def follows(reading, dataset):
    """Whether an iterator runs with the knobs of its dataset, but for those that wait for the next one."""
    return all(reading.knobs[knob.name] == knob.value for knob in read_knobs(dataset.tree) if knob.live)


@contextmanager
def listening():
    """The readings that begin meanwhile; their pipelines are metered."""
    listener = Listener()
    observe(listener)
    try:
        yield listener.readings
    finally:
        stop_observing(listener)


class Listener:
    def __init__(self):
        self.readings = []

    def reading_started(self, reading):
        self.readings.append(reading)
