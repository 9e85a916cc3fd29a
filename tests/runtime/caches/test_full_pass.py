"""Who has taken more than a pass of a pipeline without end has had the error of each element that is missing."""

import gc
import time
from concurrent.futures import Future
from itertools import islice
from threading import Timer
from types import SimpleNamespace

import pytest
import tensorflow as tf
from awaiting import wait_until
from disposing import wait_for_disposal
from programs import run_program

import autopipe
from autopipe.optimizer import Rewriting, Step
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps
from autopipe.runtime.caches.full_pass import taken_in_a_pass
from autopipe.runtime.caches.memories import Memories
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.unobserved import may_end_aside

Dataset = tf.data.Dataset
COUNT = 9


def texts(bad=None):
    """Numbers that are parsed, of which one may be none; how many there are nobody knows."""
    written = [str(number) if number != bad else "none" for number in range(COUNT)]
    return Dataset.from_tensor_slices(written).filter(lambda x: x != "").map(lambda x: tf.strings.to_number(x))


def caching(elements, after):
    """An optimized dataset with a cache that its author did not write there."""
    written, tree = elements.apply(after), extract(elements.cache().apply(after))
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    return OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))


AFTER = {
    "elements": lambda made: made.repeat().prefetch(2),
    "batches": lambda made: made.repeat().batch(4).prefetch(8),
    "batches that divide": lambda made: made.batch(3).repeat().prefetch(2),
    "whole batches": lambda made: made.repeat().batch(4, drop_remainder=True).prefetch(8),
    "whole batches of each epoch": lambda made: made.batch(4, drop_remainder=True).repeat().prefetch(8),
    "shuffled": lambda made: made.repeat().shuffle(5, seed=1).batch(2).prefetch(8),
    "a part": lambda made: made.repeat().shard(2, 1).prefetch(8),
    "a few left out": lambda made: made.skip(2).repeat().prefetch(8),
    "batches of batches": lambda made: made.repeat().batch(2).batch(2, drop_remainder=True).prefetch(2),
    "parallel": lambda made: made.map(lambda x: x + 1, num_parallel_calls=8).batch(2).repeat().prefetch(8),
}


def take(dataset, count):
    """Take so many elements, and no more; return whether one failed before."""
    iterator, failed = iter(dataset), False
    try:
        for _ in range(count):
            next(iterator)
    except tf.errors.InvalidArgumentError:
        failed = True
    time.sleep(0.1)  # What is read ahead goes on meanwhile.
    del iterator
    wait_for_disposal()
    return failed


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", AFTER)
def test_a_cache_without_end_is_full_once_its_consumer_had_a_pass_of_it(name):
    dataset = caching(texts(), AFTER[name])
    in_a_pass = taken_in_a_pass(dataset.tree, [COUNT]) - 1
    take(dataset, 1)
    assert not dataset.caches_are_full
    take(dataset, in_a_pass)
    assert dataset.caches_are_full


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "number"), [(name, (0, 4, COUNT - 1)[each % 3]) for each, name in enumerate(AFTER)])
def test_an_element_that_failed_is_not_missing_wherever_it_stands(name, number):
    dataset = caching(texts(bad=number), AFTER[name])
    take(dataset, taken_in_a_pass(dataset.tree, [COUNT - 1]) - 1)
    assert not dataset.caches_are_full
    assert take(dataset, 3 * COUNT)
    assert not dataset.caches_are_full


def test_a_pass_of_the_shorter_of_two_sides_tells_nothing_of_the_longer_one():
    few, many = (Dataset.range(count).filter(lambda x: x >= 0).cache().repeat() for count in (4, COUNT))
    tree = extract(Dataset.zip(few, many))
    assert taken_in_a_pass(tree, [4, COUNT]) == COUNT + 1
    assert taken_in_a_pass(extract(Dataset.zip(few, many.filter(lambda x: x > 0))), [4, COUNT]) is None
    assert taken_in_a_pass(extract(Dataset.zip(few, Dataset.range(9).repeat())), [4]) == 5


def test_who_reads_on_after_an_error_fills_nothing():
    dataset = caching(texts(bad=4), AFTER["elements"])
    for _fit in range(2):
        iterator, failed = iter(dataset), 0
        for _ in range(3 * COUNT):
            try:
                next(iterator)
            except tf.errors.InvalidArgumentError:
                failed += 1
        del iterator
        wait_for_disposal()
        assert failed
        assert not dataset.caches_are_full


def test_who_takes_all_of_an_unknown_number_and_no_more_is_asked_for_their_end_once_gone():
    dataset = caching(texts(), lambda made: made.prefetch(20))
    take(dataset, COUNT - 2)
    assert not dataset.caches_are_full
    take(dataset, COUNT)
    assert dataset.caches_are_full


@pytest.mark.parametrize("after", ["elements", "batches that divide"])
def test_the_next_iterator_is_served_at_once_though_nothing_was_read_ahead(after, monkeypatch):
    # A busy machine may take long to hand on an element.
    monkeypatch.setattr("autopipe.runtime.caches.memories._PATIENCE_SECONDS", 5)
    dataset = caching(texts(), lambda made: made.batch(3).repeat() if after != "elements" else made.repeat())
    for _fit in range(3):
        iterator = iter(dataset)
        for _ in range(taken_in_a_pass(dataset.tree, [COUNT]) - 1):
            next(iterator)
        del iterator
    assert dataset.caches_are_full


@pytest.fixture
def filling_took_a_minute(monkeypatch):
    later = iter([0.0, 60.0])
    monkeypatch.setattr("autopipe.runtime.caches.memories.time", SimpleNamespace(monotonic=lambda: next(later)))


def being_filled(count):
    """Memories of an unknown number of elements from which so many were taken, and what is done once that is known."""
    tree, asked = extract(texts().cache().repeat()), Future()
    memories = Memories(tree, guarded=True)
    memories.note_reader(Future(), asked)
    assert len(list(memories.build(tree).take(count))) == count
    return memories, asked


@pytest.mark.usefixtures("filling_took_a_minute")
def test_who_knows_whether_full_caches_are_whole_is_waited_for_longer_where_filling_them_took_long():
    memories, asked = being_filled(COUNT + 1)

    def know():
        memories.note_end()
        asked.set_result(None)

    Timer(0.5, know).start()
    memories.await_readers()
    assert memories.full


@pytest.mark.usefixtures("filling_took_a_minute")
def test_nobody_is_waited_for_long_while_caches_are_not_full():
    memories, _ = being_filled(COUNT - 2)
    began = time.monotonic()
    memories.await_readers()
    assert time.monotonic() - began < 10
    assert not memories.full


def take_traced(dataset, count):
    """Take elements as Keras does; nobody in Python sees which failed. One fails at most."""
    iterator = iter(dataset)

    @tf.function
    def step(iterator):
        return next(iterator)

    try:
        for _ in range(count):
            step(iterator)
    except tf.errors.InvalidArgumentError:
        pass
    time.sleep(0.1)  # What is read ahead goes on meanwhile.
    del iterator, step
    gc.collect()
    wait_for_disposal()


def test_what_failed_last_in_a_traced_function_is_not_missing():
    for after in (AFTER["elements"], lambda made: made.prefetch(20)):
        dataset = caching(texts(bad=COUNT - 1), after)
        for _fit in range(2):
            take_traced(dataset, 3 * COUNT)
            assert not dataset.caches_are_full


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["elements", "batches that divide", "whole batches"])
def test_a_pass_in_a_traced_function_fills_a_cache(name):
    dataset = caching(texts(), AFTER[name])
    in_a_pass = taken_in_a_pass(dataset.tree, [COUNT]) - 1
    take_traced(dataset, in_a_pass - 1)
    assert not dataset.caches_are_full
    take_traced(dataset, in_a_pass)
    assert dataset.caches_are_full


def read_after(factor):
    return lambda made: made.repeat().map(lambda x: x * factor).batch(2)


def test_a_cache_without_end_before_what_reads_a_variable_is_full_once_its_consumer_had_a_pass_and_is_gone():
    dataset = caching(texts(), read_after(tf.Variable(1.0)))
    assert not may_end_aside(dataset.tree)
    take(dataset, 2)
    assert not dataset.caches_are_full
    take(dataset, taken_in_a_pass(dataset.tree, [COUNT]))
    wait_until(lambda: dataset.caches_are_full)
    assert [x.numpy().tolist() for x in islice(dataset, 2)] == [[0, 1], [2, 3]]


def test_an_element_that_failed_before_what_reads_a_variable_is_not_missing():
    dataset = caching(texts(bad=COUNT - 1), read_after(tf.Variable(1.0)))
    for _fit in range(2):
        assert take(dataset, 3 * COUNT)
    assert not dataset.caches_are_full


def test_one_that_was_retuned_in_a_pass_fills_a_cache_too(monkeypatch):
    # What it ran before may take long to end on a busy machine.
    monkeypatch.setattr("autopipe.runtime.disposal._PATIENCE_SECONDS", 5)
    dataset = caching(texts(), AFTER["elements"])
    dataset.retune({"prefetch.buffer_size": 4})
    iterator = iter(dataset)
    for step in range(COUNT):
        next(iterator)
        dataset.retune({"prefetch.buffer_size": 1 + step % 3})
    del iterator
    wait_for_disposal()
    assert dataset.caches_are_full


def test_nobody_waits_for_one_more_of_what_gives_none_any_more():
    code = """
import tensorflow as tf, autopipe
from autopipe.planning.measuring import measure
measure._MOST_SECONDS = 1
measure.SampleMeasurements.caching = lambda *_, on_disk=False: (1.0, 1e-4)
names = tf.data.Dataset.range(9).filter(lambda x: x < 8).map(lambda x: tf.strings.length(tf.strings.as_string(x)))
few = names.repeat().enumerate().filter(lambda place, _: place < 20)
dataset = autopipe.optimize(few, rules=("cache_fixed_work",))
iterator = iter(dataset)
print(dataset.plan.rules, len([next(iterator) for _ in range(20)]))
del iterator
"""
    assert run_program(code).split() == ["('cache_fixed_work',)", "20"]


def test_an_iterator_after_one_that_left_the_caches_empty_runs_the_same_pipeline():
    dataset = caching(texts(), lambda made: made.repeat())
    pipelines = []
    for _fit in range(3):
        iterator = iter(dataset)
        assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
        pipelines.append(iterator._dataset)
        del iterator
        wait_for_disposal()
    assert pipelines[0] is pipelines[1] is pipelines[2]
    assert not dataset.caches_are_full


def test_an_error_is_forgotten_by_the_next_iterator_over_the_same_pipeline():
    dataset = caching(texts(bad=0), AFTER["elements"])
    for _fit in range(2):
        iterator = iter(dataset)
        with pytest.raises(tf.errors.InvalidArgumentError):
            next(iterator)
        assert iterator._autopipe_reading.requests.in_vain
        del iterator
        wait_for_disposal()
    assert not iter(dataset)._autopipe_reading.requests.in_vain


def test_under_a_filter_nobody_knows_how_many_there_are_in_a_pass():
    dataset = caching(texts(), lambda made: made.repeat().filter(lambda x: x > 3))
    assert taken_in_a_pass(dataset.tree, [COUNT]) is None
    take(dataset, 3 * COUNT)
    assert not dataset.caches_are_full


def test_a_cache_that_is_being_filled_serves_no_other():
    calls = []

    @autopipe.stateless
    def count(x):
        calls.append(float(x))
        return x

    counted = texts().map(lambda x: tf.ensure_shape(tf.numpy_function(count, [x], tf.float32), []))
    dataset = caching(counted, AFTER["elements"])
    one = iter(dataset)
    for _ in range(2 * COUNT):
        next(one)
    next(iter(dataset))
    assert len(calls) > COUNT
    del one
    wait_for_disposal()
