"""Iterators that follow one another run one pipeline: TensorFlow has rewritten it once."""

import gc
import weakref
from contextlib import nullcontext

import pytest
import tensorflow as tf
from retuning import listening, numbers

import autopipe
from autopipe.runtime.iterators import Iterators

Dataset = tf.data.Dataset


def add_one(x):
    return x + 1


@pytest.fixture
def made(monkeypatch):
    """The pipelines that were made for iterators."""
    found = []

    def make(*arguments, **named):
        found.append(original(*arguments, **named))
        return found[-1]

    original = Iterators._make
    monkeypatch.setattr(Iterators, "_make", make)
    return found


@pytest.mark.parametrize("metered", [False, True], ids=["plain", "metered"])
def test_epochs_that_follow_one_another_run_one_pipeline(made, metered):
    dataset = autopipe.optimize(Dataset.range(12).map(add_one).cache().shuffle(5).batch(3), rules=(), seconds=0)
    with listening() if metered else nullcontext([]) as readings:
        for _epoch in range(5):
            assert numbers(dataset) == list(range(1, 13))
    assert len(made) == 1
    assert [reading.stall.read().batches for reading in readings] == [4] * len(readings)


def test_iterators_that_are_read_at_once_are_metered_apart(made):
    dataset = autopipe.optimize(Dataset.range(12).map(add_one).batch(3), rules=(), seconds=0)
    with listening() as readings:
        one, other = iter(dataset), iter(dataset)
        next(one)
        for _ in range(3):
            next(other)
    assert [reading.stall.read().batches for reading in readings] == [1, 3]
    assert len(made) == 2


def test_epochs_with_knobs_that_are_tried_run_one_pipeline_and_leave_the_other_ready(made):
    dataset = autopipe.optimize(Dataset.range(12).map(add_one).cache().shuffle(5).batch(3), rules=(), seconds=0)
    assert numbers(dataset) == list(range(1, 13))
    for _epoch in range(3):
        dataset.try_out_next({"thread_pool.size": 2})
        assert numbers(dataset) == list(range(1, 13))
    assert numbers(dataset) == list(range(1, 13))
    assert len(made) == 2


def test_what_was_made_before_a_change_of_knobs_is_not_run_again(made):
    dataset = autopipe.optimize(Dataset.range(12).map(add_one).batch(3), rules=(), seconds=0)
    for size in (1, 2, 3):
        dataset.retune({"thread_pool.size": size})
        assert numbers(dataset) == list(range(1, 13))
    assert len({id(each.tree) for each in made}) == len(made) == 3
    alive = [weakref.ref(each) for each in made]
    made.clear()
    gc.collect()
    assert [each() is not None for each in alive] == [False, False, True]
