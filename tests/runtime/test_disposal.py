"""Nobody waits for the end of an iterator, and it does come."""

import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest
import tensorflow as tf
from disposing import wait_for_disposal

import autopipe
from autopipe.runtime.disposal import (
    _nothing_like,
    _on_another_thread,
    dispose_aside,
    number_given,
    put_in_place,
    resource_of,
)
from autopipe.runtime.repoint import repoint, state_of

Dataset = tf.data.Dataset
SECONDS = 20


class SlowEnd:
    """A dataset of numbers whose iterators take until they are let go to come to their end."""

    def __init__(self) -> None:
        self.ending, self.let_go = threading.Event(), threading.Event()

    def numbers(self):
        try:
            yield from range(10)
        finally:
            self.ending.set()
            self.let_go.wait(SECONDS)

    @property
    def dataset(self):
        return Dataset.from_generator(self.numbers, output_signature=tf.TensorSpec([], tf.int64))


@pytest.fixture
def slow():
    made = SlowEnd()
    yield made
    made.let_go.set()


def test_who_drops_an_iterator_does_not_wait_for_its_end_which_comes(slow):
    iterator = iter(slow.dataset)
    dispose_aside(iterator)
    assert int(next(iterator)) == 0
    del iterator
    assert not slow.let_go.is_set()
    assert slow.ending.wait(SECONDS)


def test_an_iterator_whose_handle_somebody_holds_goes_on():
    iterator = iter(Dataset.range(10))
    dispose_aside(iterator)
    resource = resource_of(iterator)
    first = int(next(iterator))
    del iterator
    wait_for_disposal()
    (second,) = tf.raw_ops.IteratorGetNext(iterator=resource, output_types=[tf.int64], output_shapes=[[]])
    assert (first, int(second)) == (0, 1)


NUMBERS = Dataset.range(1, 9)


@pytest.mark.parametrize(
    "dataset",
    [
        NUMBERS,
        NUMBERS.batch(3),
        NUMBERS.window(3),
        NUMBERS.map(tf.strings.as_string),
        NUMBERS.map(lambda x: {"ragged": tf.RaggedTensor.from_row_lengths(tf.range(x), [x]), "pair": (x, x > 1)}),
        NUMBERS.map(lambda x: tf.sparse.from_dense([x])),
        NUMBERS.map(tf.experimental.Optional.from_value),
        Dataset.from_generator(lambda: iter([1.0]), output_signature=tf.TensorSpec(None)),
    ],
    ids=["numbers", "batches", "datasets", "texts", "ragged", "sparse", "optional", "unknown rank"],
)
def test_what_takes_the_place_of_a_pipeline_is_made_once_for_its_types(dataset):
    nothing = _nothing_like(dataset)
    assert _nothing_like(dataset.skip(1)) is nothing
    iterator = iter(dataset)
    next(iterator)
    put_in_place(resource_of(iterator), nothing, aside=False)
    assert not list(iterator)


def test_another_pipeline_is_in_place_before_the_one_before_has_ended(slow):
    iterator = iter(slow.dataset)
    assert int(next(iterator)) == 0
    before = put_in_place(resource_of(iterator), Dataset.range(5, 8), aside=True)
    assert [int(x) for x in iterator] == [5, 6, 7]
    assert not before.done()
    slow.let_go.set()
    before.result(SECONDS)


def test_it_is_another_thread_that_ends_an_iterator_which_was_given_a_state(monkeypatch):
    """TensorFlow does not show the model of such a one, by which the others are known to have begun."""
    seen = []

    def noted(work):
        seen.append(work)
        return _on_another_thread(work)

    monkeypatch.setattr("autopipe.runtime.disposal._on_another_thread", noted)
    iterator = iter(Dataset.range(10))
    assert repoint(iterator, state_of(iterator), Dataset.range(10), aside=True)
    assert not seen
    assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
    for times in (1, 2):
        assert repoint(iterator, state_of(iterator), Dataset.range(10), aside=True)
        assert len(seen) == times
    assert [int(x) for x in iterator] == list(range(3, 10))


def test_an_iterator_that_was_given_a_state_is_not_asked_for_its_model_where_the_next_is_soon_in_place(monkeypatch):
    """TensorFlow logs a warning to whoever asks."""
    asked = []
    monkeypatch.setattr("autopipe.runtime.disposal._MAKING_SECONDS", SECONDS)
    monkeypatch.setattr("autopipe.runtime.disposal.is_fresh", lambda resource: asked.append(resource) or False)
    iterator = iter(Dataset.range(10))
    for step in range(3):
        assert int(next(iterator)) == step
        assert repoint(iterator, state_of(iterator), Dataset.range(10), aside=True)
        assert len(asked) == 1


def test_a_pipeline_of_other_types_is_refused_and_the_one_before_goes_on():
    iterator = iter(Dataset.range(3))
    assert int(next(iterator)) == 0
    with pytest.raises(tf.errors.InvalidArgumentError):
        put_in_place(resource_of(iterator), Dataset.from_tensors("other"), aside=True)
    assert [int(x) for x in iterator] == [1, 2]


@pytest.mark.parametrize("aside", [False, True])
def test_a_pipeline_that_has_given_nothing_is_replaced_at_once(aside):
    iterator = iter(Dataset.range(3))
    assert put_in_place(resource_of(iterator), Dataset.range(4, 6), aside=aside).done()
    assert [int(x) for x in iterator] == [4, 5]


def test_an_iterator_that_autotune_does_not_look_after_is_replaced_at_once():
    options = tf.data.Options()
    options.autotune.enabled = False
    iterator = iter(Dataset.range(3).with_options(options))
    assert int(next(iterator)) == 0
    assert put_in_place(resource_of(iterator), Dataset.range(4, 6).with_options(options), aside=True).done()
    assert [int(x) for x in iterator] == [4, 5]


def noted_disposals(monkeypatch):
    seen = []

    def note(iterator, *_):
        seen.append(iterator)
        return Future()

    monkeypatch.setattr("autopipe.runtime.iterators.dispose_aside", note)
    return seen


def test_iterators_of_an_optimized_dataset_are_disposed_of_aside(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "autopipe.runtime.iterators.dispose_aside", lambda iterator, *_: seen.append(iterator) or Future()
    )
    iterator = iter(autopipe.optimize(Dataset.range(3).map(lambda x: x + 1), rules=[]))
    assert seen == [iterator]


def test_what_is_to_be_done_before_an_iterator_is_destroyed_is_done_with_its_handle():
    iterator, taken = iter(Dataset.range(3)), []

    def take(resource):
        taken.append(int(tf.raw_ops.IteratorGetNext(iterator=resource, output_types=[tf.int64], output_shapes=[[]])[0]))

    next(iterator)
    destroyed = dispose_aside(iterator, take)
    assert not destroyed.done()
    del iterator
    wait_for_disposal()
    assert taken == [1]
    assert destroyed.done()


def test_of_an_iterator_that_a_traced_function_reads_on_from_nothing_is_taken():
    iterator, seen = iter(Dataset.range(3)), []
    dispose_aside(iterator, seen.append)
    handle = resource_of(iterator)
    del iterator
    wait_for_disposal()
    assert seen == [None]
    assert handle is not None


def test_what_an_iterator_gave_is_counted_but_not_of_one_that_was_given_a_state():
    iterator = iter(Dataset.range(9).filter(lambda x: x % 2 == 0).batch(2))
    assert [number_given(resource_of(iterator)), next(iterator) is None, number_given(resource_of(iterator))] == [
        0,
        False,
        1,
    ]
    assert repoint(iterator, state_of(iterator), Dataset.range(9).filter(lambda x: x % 2 == 0).batch(2))
    assert number_given(resource_of(iterator)) is None


def test_who_might_notice_that_two_pipelines_run_at_once_waits(monkeypatch, slow):
    seen = []
    monkeypatch.setattr(
        "autopipe.runtime.iterators.dispose_aside", lambda iterator, *_: seen.append(iterator) or Future()
    )
    slow.let_go.set()
    assert [int(x) for x in autopipe.optimize(slow.dataset, rules=[])] == list(range(10))
    assert not seen


def test_a_script_may_end_while_an_iterator_does():
    script = """if True:
        import autopipe, tensorflow as tf
        dataset = autopipe.optimize(tf.data.Dataset.range(10**6).map(lambda x: x + 1).prefetch(2), rules=[])
        for number in dataset:
            if number == 1000:
                break
        iterator = iter(dataset)
        next(iterator)
        print("done")
    """
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    assert "Traceback" not in ran.stderr
