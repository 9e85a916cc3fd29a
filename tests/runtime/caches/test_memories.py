"""What a memory cache holds is made once and stays, whatever is retuned, and is freed with the dataset."""

import gc
import time
import weakref
from contextlib import nullcontext
from itertools import islice

import keras
import numpy as np
import pytest
import tensorflow as tf
from awaiting import wait_until
from disposing import wait_for_disposal
from failing_elements import failing_at
from retuning import flat, follows, listening, numbers, read_retuning, setting

import autopipe
from autopipe.optimizer import Rewriting, Step
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps
from autopipe.runtime.caches.memories import Memories
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.unobserved import may_end_aside

Dataset = tf.data.Dataset
COUNT = 7


def add_one(x):
    return x + 1


def test_a_filled_cache_is_kept_when_the_stages_around_it_are_retuned():
    calls = tf.Variable(0)

    def counting(x):
        calls.assign_add(1)
        return x

    made = Dataset.range(20).map(counting, num_parallel_calls=2).cache().map(add_one, num_parallel_calls=2).batch(4)
    dataset = autopipe.optimize(made, keeps="sequence", seconds=0)
    for step in range(4):
        list(dataset)
        gc.collect()
        dataset.retune(setting(dataset, step))
    read_retuning(dataset)

    assert int(calls) == 20


CACHED = {
    "cache": lambda made: made.cache(),
    "batch": lambda made: made.cache().map(add_one, num_parallel_calls=2).batch(3).prefetch(2),
    "shuffle": lambda made: made.cache().shuffle(5).prefetch(1),
    "repeat": lambda made: made.cache().repeat(2).shuffle(5).prefetch(1),
    "two caches": lambda made: made.cache().map(add_one, num_parallel_calls=2).cache().prefetch(1),
    "branch": lambda made: Dataset.zip((made.cache(), Dataset.range(COUNT).cache())).prefetch(1),
}


def counted(calls, elements=None):
    @autopipe.stateless
    def count(x):
        calls.append(int(x))
        return x

    def counting(x):
        return tf.ensure_shape(tf.py_function(count, [x], tf.int64), [])

    return (elements or Dataset.range(COUNT)).map(counting, num_parallel_calls=2)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "metered"), [*((name, False) for name in CACHED), ("repeat", True)])
def test_what_a_memory_cache_holds_is_made_once_when_every_step_swaps(name, metered):
    calls = []
    expected = numbers(CACHED[name](counted([])))
    dataset = autopipe.optimize(CACHED[name](counted(calls)), rules=(), seconds=0)
    made = []
    with listening() if metered else nullcontext():
        for _epoch in range(3):
            assert numbers(read_retuning(dataset)) == expected
            made.append(len(calls))
    # In the epoch that fills the cache, what was read ahead between saving and swapping is made again.
    assert set(calls) == set(range(COUNT))
    assert made == [made[0]] * 3


def test_a_memory_cache_that_was_full_is_not_filled_again_after_an_epoch_that_was_left():
    calls = []
    dataset = autopipe.optimize(counted(calls).cache().prefetch(1), rules=(), seconds=0)
    list(dataset)
    iterator = iter(dataset)
    for step in range(3):
        next(iterator)
        dataset.retune(setting(dataset, step))
    del iterator
    assert flat(read_retuning(dataset)) == list(range(COUNT))
    assert len(calls) == COUNT


def test_an_iterator_that_fills_a_cache_is_not_disturbed_by_another_that_fills_it():
    dataset = autopipe.optimize(Dataset.range(10).map(add_one).cache().prefetch(1), keeps="sequence", rules=())
    one = iter(dataset)
    seen = [int(next(one)) for _ in range(2)]
    assert flat(dataset) == list(range(1, 11))
    assert numbers(dataset.batch(2)) == list(range(1, 11))

    dataset.retune({"prefetch.buffer_size": 3})

    assert seen + [int(x) for x in one] == list(range(1, 11))
    assert flat(dataset) == list(range(1, 11))


def test_two_iterators_over_a_full_cache_are_both_retuned_and_it_stays_full():
    calls = []
    dataset = autopipe.optimize(counted(calls).cache().shuffle(3).prefetch(1), rules=(), seconds=0)
    list(dataset)
    with listening() as readings:
        one, two = iter(dataset), iter(dataset)
        seen = {one: [int(next(one))], two: [int(next(two)), int(next(two))]}
        for step in range(COUNT + 2):
            for iterator, out in seen.items():
                out += [int(x) for x in islice(iterator, 1)]
                dataset.retune(setting(dataset, step))
            assert all(follows(reading, dataset) for reading in readings)

    assert [sorted(out) for out in seen.values()] == [list(range(COUNT))] * 2
    assert sorted(flat(dataset)) == list(range(COUNT))
    assert len(calls) == COUNT


def test_what_a_cache_holds_is_freed_with_the_dataset():
    held = []

    def make(x):
        # TensorFlow takes over an array that begins where its own would, and copies others.
        room = np.zeros(32)
        begin = -room.ctypes.data % 64 // room.itemsize
        array = room[begin : begin + 16]
        held.append(weakref.ref(array))
        return array

    def making(x):
        return tf.ensure_shape(tf.numpy_function(make, [x], tf.float64), [16])

    dataset = autopipe.optimize(Dataset.range(3).map(making).cache(), rules=(), seconds=0)
    for _epoch in range(2):
        list(dataset)
        dataset.retune(setting(dataset, 1))
    assert all(each() is not None for each in held)
    del dataset
    gc.collect()
    # Threads of TensorFlow let go of arrays, too; Python hears of it with a later operation.
    deadline = time.monotonic() + 10
    while any(each() is not None for each in held) and time.monotonic() < deadline:
        tf.zeros([1]) + 1
    assert all(each() is None for each in held)


NUMBERS = {
    "known": lambda: Dataset.range(12),
    "unknown": lambda: Dataset.range(18).filter(lambda x: x < 12),
}


def caching(failing):
    """An optimized dataset with a cache that its author did not write there."""
    written = failing.map(add_one).prefetch(100)
    tree = extract(failing.cache().map(add_one).prefetch(100))
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    return OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("metered", [False, True], ids=["plain", "metered"])
@pytest.mark.parametrize("number", NUMBERS)
def test_an_element_that_failed_is_not_missing_from_the_cache_in_the_next_epoch(number, metered):
    """A prefetch goes on after an error, and TensorFlow takes the cache for full without the element."""
    bad = tf.Variable(7, dtype=tf.int64)
    dataset = caching(NUMBERS[number]().map(failing_at(bad)))
    with listening() if metered else nullcontext():
        for _epoch in range(2):
            iterator = iter(dataset)
            with pytest.raises(tf.errors.InvalidArgumentError):
                list(iterator)
            time.sleep(0.1)  # The prefetch goes on meanwhile.
        bad.assign(-1)
        for _epoch in range(2):
            assert flat(dataset) == list(range(1, 13))
        bad.assign(7)
        assert flat(dataset) == list(range(1, 13))
    assert dataset.caches_are_full


def test_an_element_that_failed_is_not_missing_after_those_that_are_skipped():
    bad = tf.Variable(7, dtype=tf.int64)
    training = caching(Dataset.range(12).map(failing_at(bad))).skip(3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(training)
    time.sleep(0.1)  # The prefetch goes on meanwhile.
    bad.assign(-1)
    for _epoch in range(2):
        assert flat(training) == list(range(4, 13))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_cache_that_was_added_is_filled_once_when_every_step_swaps(number):
    calls = []
    dataset = caching(counted(calls, NUMBERS[number]()))
    for _epoch in range(2):
        assert flat(read_retuning(dataset)) == list(range(1, 13))
    made = len(calls)
    assert flat(dataset) == list(range(1, 13))
    assert len(calls) == made


PARTS = {
    "take": lambda made: made.take(40),
    "skip": lambda made: made.skip(40),
    "every second": lambda made: made.shard(2, 1),
}
BATCHES = {
    "batches": lambda made: made.batch(4),
    "a smaller last batch": lambda made: made.batch(6),
    "a last batch that is dropped": lambda made: made.batch(6, drop_remainder=True),
    "a variable": lambda made: made.batch(4).map(lambda x: x + BESIDE),
}
BESIDE = tf.Variable(0, dtype=tf.int64)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("part", PARTS)
def test_keras_fills_the_cache_of_a_part_once_where_it_hears_of_all_that_fails(part, batches):
    calls = []
    made = counted(calls, Dataset.range(80).apply(PARTS[part]).shuffle(40))
    written, tree = made.apply(BATCHES[batches]), extract(made.cache().apply(BATCHES[batches]))
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))
    model = keras.Sequential([keras.layers.Rescaling(1.0), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset.map(lambda x: (tf.cast(x, tf.float32)[:, None],) * 2), epochs=4, shuffle=False, verbose=0)
    # Of rows that are dropped Keras asks for none, nor hears of one that failed, where others take its place.
    unheard = batches == "a last batch that is dropped" and part != "skip"
    assert len(calls) == (80 if unheard else 40)


def test_what_was_filled_goes_with_its_iterator_where_nobody_can_ask_for_its_end():
    made = Dataset.range(80).map(failing_at(tf.Variable(-1, dtype=tf.int64))).take(40)

    def after(kept):
        return kept.batch(6, drop_remainder=True).map(lambda x: x + BESIDE).prefetch(9)

    written, tree = made.apply(after), extract(made.cache().apply(after))
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))
    first = iter(dataset)
    for _ in range(6):
        next(first)
    filled, second = weakref.ref(first._autopipe_reading.memories), iter(dataset)
    del first
    gc.collect()
    wait_until(lambda: filled() is None)
    assert len(list(second)) == 6


def endless(elements, stages=lambda made: made):
    """An optimized dataset without end, with a cache that its author did not write there."""
    written = elements.apply(stages).repeat().prefetch(100)
    tree = extract(elements.cache().apply(stages).repeat().prefetch(100))
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    return OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))


def rows(made):
    return [int(x) for each in made for x in np.ravel(each)]


ENDLESS = {
    "elements": (lambda made: made, lambda made: made),
    "batches": (lambda made: made.batch(5), lambda made: made),
    "mapped batches": (lambda made: made.batch(4).map(add_one).map(lambda x: x - 1), lambda made: made),
    "the rest is dropped": (lambda made: made, lambda made: made.batch(5, drop_remainder=True)),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_cache_under_an_endless_repeat_is_filled_once_for_all_iterators(name):
    calls = []
    before, after = ENDLESS[name]
    dataset = endless(counted(calls, Dataset.range(12)).apply(before), after)
    for _fit in range(3):
        iterator = iter(dataset)
        assert rows(islice(iterator, 2)) == rows(islice(endless(Dataset.range(12).apply(before), after), 2))
        wait_until(lambda: len(calls) >= 12)
        time.sleep(0.1)  # The prefetch reads to the end meanwhile.
        del iterator
    assert sorted(calls) == list(range(12))
    assert dataset.caches_are_full


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ENDLESS)
def test_an_element_that_failed_under_an_endless_repeat_is_not_missing_for_the_next_iterator(name):
    bad = tf.Variable(7, dtype=tf.int64)
    before, after = ENDLESS[name]
    dataset = endless(Dataset.range(12).map(failing_at(bad)).apply(before), after)
    for _fit in range(2):
        iterator = iter(dataset)
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(iterator)
        time.sleep(0.1)  # The prefetch goes on meanwhile.
    bad.assign(-1)
    whole = islice(endless(Dataset.range(12).apply(before), after), 6)
    assert rows(islice(dataset, 6)) == rows(whole)


def test_records_under_an_endless_repeat_are_cached_for_all_iterators(tmp_path):
    path = str(tmp_path / "numbers")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(12):
            writer.write(str(number))
    records = tf.data.TFRecordDataset(path).map(lambda record: tf.strings.to_number(record, tf.int64))
    for elements in (records, records.apply(tf.data.experimental.assert_cardinality(12))):
        dataset = endless(elements)
        for _fit in range(2):
            assert rows(islice(dataset, 15)) == [*range(12), 0, 1, 2]
            wait_for_disposal()
            assert dataset.caches_are_full


def test_who_skips_what_failed_finds_it_failing_again():
    bad = tf.Variable(7, dtype=tf.int64)
    dataset = caching(Dataset.range(12).map(failing_at(bad)))
    for _epoch in range(3):
        iterator, seen, failed = iter(dataset), [], 0
        while True:
            try:
                seen.append(int(next(iterator)))
            except tf.errors.InvalidArgumentError:
                failed += 1
            except StopIteration:
                break
        assert (seen, failed) == ([*range(1, 8), *range(9, 13)], 1)


def test_a_cache_of_the_author_under_an_endless_repeat_is_filled_once_though_a_map_before_it_was_rewritten(tmp_path):
    path = str(tmp_path / "numbers")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(20):
            writer.write(str(number))

    def square(record):
        return tf.strings.to_number(record, tf.int64) ** 2

    written = tf.data.TFRecordDataset(path).map(square).cache().repeat().batch(4)
    dataset = autopipe.optimize(written, rules=["parallel_map"])
    assert dataset.plan.rules == ("parallel_map",)
    for _fit in range(2):
        iterator = iter(dataset)
        for _step in range(11):
            next(iterator)
    assert dataset.caches_are_full


def test_memories_hand_what_is_full_over_to_their_successor_and_keep_it():
    tree = extract(Dataset.range(5).map(add_one).cache().prefetch(1))
    memories = Memories(tree)
    assert numbers(memories.build(tree)) == [1, 2, 3, 4, 5]
    successor = memories.successor()
    other = extract(Dataset.range(100, 105).map(add_one).cache().prefetch(1))
    assert [numbers(each.build(other)) for each in (successor, memories)] == [[1, 2, 3, 4, 5]] * 2


def test_memories_that_are_not_full_hand_nothing_over():
    tree = extract(Dataset.range(5).cache().prefetch(1))
    memories = Memories(tree)
    iterator = iter(memories.build(tree))
    next(iterator)
    assert not memories.successor().full


def test_memories_know_whether_they_hold_more_than_so_many():
    tree = extract(Dataset.range(5).cache())
    memories = Memories(tree)
    assert not memories.hold_more_than(0)
    assert numbers(memories.build(tree)) == list(range(5))
    assert [memories.hold_more_than(count) for count in (4, 5, 6)] == [True, False, False]


def test_a_repeated_cache_is_filled_once_though_every_step_swaps_beside_pipelines_that_end():
    rows = Dataset.range(COUNT).map(add_one, num_parallel_calls=2).cache()
    dataset = autopipe.optimize(rows.repeat(2).shuffle(5).prefetch(1), rules=(), seconds=0)
    assert may_end_aside(dataset.tree)
    for _epoch in range(2):
        assert numbers(read_retuning(dataset)) == sorted([*range(1, COUNT + 1)] * 2)
        assert dataset.caches_are_full


def in_a_function(dataset):
    @tf.function
    def read():
        read = tf.zeros([0], tf.int64)
        for batch in dataset:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(read, tf.TensorShape([None]))])
            read = tf.concat([read, batch], 0)
        return read

    return read()


READINGS = {
    "unbatch": lambda dataset: dataset.unbatch(),
    "take": lambda dataset: dataset.take(99).unbatch(),
    "enumerate": lambda dataset: dataset.enumerate().map(lambda _, x: x).unbatch(),
    "function": in_a_function,
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("derive", READINGS.values(), ids=READINGS)
@pytest.mark.parametrize("first", ["itself", "derived"])
@pytest.mark.parametrize("steady", [True, False], ids=["one order", "a drawn order"])
def test_what_is_derived_later_reads_what_is_cached(derive, first, steady):
    """In its order, as of predictions, and of labels that are read apart from them."""
    calls = []
    elements = counted(calls, Dataset.range(40)) if steady else Dataset.range(40).shuffle(40)
    dataset = autopipe.optimize(elements.cache().batch(4), seconds=0)
    if first == "itself":
        order = [int(x) for batch in dataset for x in batch]
        assert [int(x) for x in derive(dataset)] == order
    else:
        order = [int(x) for x in derive(dataset)]
        assert [int(x) for batch in dataset for x in batch] == order
    iterator = iter(dataset)
    seen = [int(x) for x in next(iterator)]
    between = [int(x) for x in derive(dataset)]
    dataset.retune({"prefetch.buffer_size": 3})
    assert [int(x) for x in derive(dataset)] == between == order
    assert [*seen, *(int(x) for batch in iterator for x in batch)] == order
    assert len(calls) == (40 if steady else 0)


def test_of_two_caches_one_is_full_before_the_other():
    tree = extract(Dataset.range(3).cache().concatenate(Dataset.range(5).cache()))
    memories = Memories(tree)
    iterator = iter(memories.build(tree))
    next(iterator)
    assert not memories.some_are_filled
    for _ in range(3):
        next(iterator)
    assert memories.some_are_filled
    assert not memories.are_filled
