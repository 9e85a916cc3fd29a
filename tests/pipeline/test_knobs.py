"""Knobs are named by their stage, checked against their limits, and set without changing anything else."""

import pytest
import tensorflow as tf

from autopipe.errors import KnobError
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import read_knobs, with_knobs
from autopipe.pipeline.text import one_line

Dataset = tf.data.Dataset


def load(x):
    return x


def tree():
    branch = Dataset.range(9).map(load, num_parallel_calls=3).interleave(Dataset.range, 4, num_parallel_calls=2)
    return extract(Dataset.zip((branch, Dataset.range(3).map(load, num_parallel_calls=5))).batch(2).prefetch(7))


def test_two_stages_of_one_name_are_told_apart():
    assert {knob.name: knob.value for knob in read_knobs(tree())} == {
        "map[load].num_parallel_calls": 3,
        "interleave[range].num_parallel_calls": 2,
        "map[load]#2.num_parallel_calls": 5,
        "prefetch.buffer_size": 7,
    }


def test_only_the_named_knob_is_set():
    changed = with_knobs(tree(), {"map[load]#2.num_parallel_calls": -1})
    assert one_line(changed) == one_line(tree()).replace("calls=5", "calls=AUTOTUNE")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("map[save].num_parallel_calls", 1, "but got 'map\\[save\\].num_parallel_calls'"),
        ("prefetch.buffer_size", 0, "must be a whole number >= 1, or -1 to leave it to TensorFlow, but got 0"),
        ("interleave[range].num_parallel_calls", 5, ">= 1 and <= 4, or -1"),
    ],
)
def test_what_tensorflow_would_not_take_is_refused(name, value, words):
    with pytest.raises(KnobError, match=words):
        with_knobs(tree(), {name: value})
