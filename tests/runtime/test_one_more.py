"""Of an iterator whose consumer is gone it is found out whether it came to its end, in the time there is for that."""

import threading
import time

import pytest
import tensorflow as tf
from caching_shuffled_work import caching
from disposing import wait_for_disposal

from autopipe.runtime import one_more
from autopipe.runtime.disposal import resource_of
from autopipe.runtime.one_more import ask_for_one_more

Dataset = tf.data.Dataset
FOR_EVER = 10**8


def asked(dataset, taken):
    iterator = iter(dataset)
    for _ in range(taken):
        next(iterator)
    return ask_for_one_more(resource_of(iterator), dataset, began=time.monotonic())


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(3),
        Dataset.range(3).map(lambda x: tf.ragged.range(x)),
        Dataset.range(3).map(lambda x: tf.strings.as_string(tf.range(x))),
        Dataset.range(3).window(1),
    ],
    ids=["numbers", "ragged", "of unknown size", "datasets"],
)
def test_there_is_one_more_until_the_end(dataset):
    assert asked(dataset, 2) is None
    assert isinstance(asked(dataset, 3), tf.errors.OutOfRangeError)


def test_an_element_that_fails_is_told_from_the_end():
    dataset = Dataset.range(3).map(lambda x: tf.debugging.check_numerics(1 / (1 - tf.cast(x, tf.float32)), "no number"))
    assert isinstance(asked(dataset, 1), tf.errors.InvalidArgumentError)


def test_who_looks_for_it_in_all_that_is_left_is_given_up(monkeypatch):
    monkeypatch.setattr(one_more, "_PATIENCE_SECONDS", 0.1)
    assert isinstance(asked(Dataset.range(FOR_EVER).filter(lambda x: x < 2), 2), tf.errors.CancelledError)


def test_a_loop_that_has_the_last_that_passes_a_filter_leaves_no_thread_that_goes_on(monkeypatch):
    monkeypatch.setattr(one_more, "_PATIENCE_SECONDS", 0.1)
    few = Dataset.range(FOR_EVER // 10).filter(lambda x: x < 9)
    dataset = caching(few.map(lambda x: tf.strings.to_number(tf.strings.as_string(x))))
    assert dataset.must_end
    for _, element in zip(range(9), dataset, strict=False):
        assert element < 9
    wait_for_disposal()
    assert not any(thread.name == "autopipe-disposal" for thread in threading.enumerate())
