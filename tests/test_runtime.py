"""An optimized dataset is re-pointed under a live iterator: every element exactly once per epoch."""

import gc
import weakref
from itertools import islice

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import KnobError
from autopipe.pipeline.knobs import read_knobs
from autopipe.runtime import observe, stop_observing

Dataset = tf.data.Dataset
SCHEDULE = [(1, 1), (4, 8), (2, 0), (-1, 2), (3, 5)]


def setting(dataset, step):
    """Other values for every knob, in a cycle."""
    calls, threads = SCHEDULE[step % len(SCHEDULE)]
    values = {"num_parallel_calls": calls, "buffer_size": step % 7 + 1, "size": threads}
    knobs = read_knobs(dataset.tree)
    return {knob.name: min(values[knob.field], knob.most or values[knob.field]) for knob in knobs}


def flat(elements):
    return [
        np.asarray(leaf).tolist()
        for element in islice(elements, 60)
        for leaf in tf.nest.flatten(element, expand_composites=True)
    ]


def read_retuning(dataset):
    out = []
    for step, element in enumerate(islice(dataset, 60)):
        out.append(element)
        dataset.retune(setting(dataset, step))
    return out


def add_one(x):
    return x + 1


def up_to(x):
    return Dataset.range(x)


TABLE = {
    "map": lambda: Dataset.range(40).map(add_one).batch(3),
    "shuffle": lambda: Dataset.range(40).shuffle(10, seed=3).map(add_one).batch(3),
    "cache": lambda: Dataset.range(40).map(add_one).cache().shuffle(9, seed=5).batch(3),
    "endless": lambda: Dataset.range(11).shuffle(11, seed=2).repeat().map(add_one).batch(3),
    "repeat": lambda: Dataset.range(11).shuffle(11, seed=2).repeat(4).map(add_one).batch(3),
    "filter": lambda: Dataset.range(60).filter(lambda x: x % 3 > 0).map(add_one).batch(3),
    "interleave": lambda: Dataset.range(9).interleave(up_to, cycle_length=3, num_parallel_calls=2).map(add_one),
    "flat_map": lambda: Dataset.range(9).flat_map(up_to).map(add_one).batch(2),
    "zip": lambda: Dataset.zip((Dataset.range(30).map(add_one), Dataset.range(40).shuffle(5, seed=1))).batch(4),
    "concatenate": lambda: Dataset.range(9).map(add_one).concatenate(Dataset.range(9)).prefetch(2),
    "enumerate": lambda: Dataset.range(20).map(add_one).enumerate(3).prefetch(2),
    "padded_batch": lambda: Dataset.range(20).map(lambda x: tf.fill([x % 4], x)).padded_batch(3),
    "unbatch": lambda: Dataset.range(20).batch(4).unbatch().map(add_one),
    "take_skip_shard": lambda: Dataset.range(60).skip(3).take(40).shard(2, 1).map(add_one),
    "window": lambda: Dataset.range(30).window(3).flat_map(lambda w: w.batch(3)).map(add_one).prefetch(1),
    "seeded_random": lambda: Dataset.range(30).map(lambda x: tf.random.uniform((), seed=4)).prefetch(1),
    "ragged": lambda: Dataset.range(20).map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x), [x])).prefetch(1),
}


@pytest.mark.parametrize("metered", [False, True], ids=["plain", "metered"])
@pytest.mark.parametrize("name", TABLE)
def test_retuning_after_every_element_keeps_the_sequence(name, metered):
    observer = Listener()
    original = TABLE[name]()
    epochs = 1 if name == "endless" else 3
    expected = [flat(original) for _epoch in range(epochs)]
    dataset = autopipe.optimize(TABLE[name](), keeps="sequence")
    if metered:
        observe(observer)
    try:
        assert [flat(read_retuning(dataset)) for _epoch in range(epochs)] == expected
    finally:
        stop_observing(observer)
    assert bool(observer.readings) == metered


class Listener:
    def __init__(self):
        self.readings = []

    def reading_started(self, reading):
        self.readings.append(reading)


def test_captured_variables_and_tables_stay_the_same_live_objects():
    factor = tf.Variable(7, dtype=tf.int64)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)
    dataset = autopipe.optimize(Dataset.range(3).map(lambda x: x * factor + table.lookup(x)), keeps="sequence")
    assert flat(dataset) == [0, 7, 14]

    factor.assign(100)
    table.insert(tf.constant([1], tf.int64), tf.constant([5], tf.int64))

    assert flat(dataset) == [0, 105, 200]


def test_a_generator_is_read_again_in_each_epoch_and_retuned_between_them():
    runs = []

    def numbers():
        runs.append(1)
        yield from range(6)

    made = Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).map(add_one, 2).prefetch(1)
    dataset = autopipe.optimize(made, keeps="sequence")
    assert not runs

    for step in range(2):
        assert flat(dataset) == [1, 2, 3, 4, 5, 6]
        dataset.retune(setting(dataset, step))
    assert len(runs) == 2


def test_retuning_under_a_generator_waits_for_the_next_epoch_and_loses_nothing():
    made = Dataset.from_generator(lambda: iter(range(6)), output_signature=tf.TensorSpec((), tf.int64)).prefetch(1)
    dataset = autopipe.optimize(made, keeps="sequence")
    iterator = iter(dataset)
    first = [int(next(iterator)) for _ in range(2)]

    dataset.retune({"prefetch.buffer_size": 5})

    assert first + [int(x) for x in iterator] == list(range(6))
    assert dataset.knobs["prefetch.buffer_size"] == 5
    assert flat(dataset) == list(range(6))


def test_a_filled_cache_is_kept_when_the_stages_around_it_are_retuned():
    calls = tf.Variable(0)

    def counting(x):
        calls.assign_add(1)
        return x

    made = Dataset.range(20).map(counting, num_parallel_calls=2).cache().map(add_one, num_parallel_calls=2).batch(4)
    dataset = autopipe.optimize(made, keeps="sequence")
    for step in range(4):
        list(dataset)
        gc.collect()
        dataset.retune(setting(dataset, step))
    read_retuning(dataset)

    assert int(calls) == 20


def test_retuning_after_the_end_leaves_an_iterator_at_its_end():
    dataset = autopipe.optimize(Dataset.range(3).prefetch(1))
    iterator = iter(dataset)
    assert len(list(iterator)) == 3
    dataset.retune({"prefetch.buffer_size": 4})
    with pytest.raises(StopIteration):
        next(iterator)


def test_two_iterators_are_both_retuned_from_where_they_are():
    dataset = autopipe.optimize(Dataset.range(6).map(add_one), keeps="sequence")
    one, two = iter(dataset), iter(dataset)
    assert [int(next(one)), int(next(one)), int(next(two))] == [1, 2, 1]
    dataset.retune({"prefetch.buffer_size": 3})
    assert [int(x) for x in one] == [3, 4, 5, 6]
    assert [int(x) for x in two] == [2, 3, 4, 5, 6]


def test_the_iterator_outlives_the_dataset():
    iterator = iter(autopipe.optimize(Dataset.range(6).map(lambda x: x * 3)))
    gc.collect()
    assert [int(x) for x in iterator] == [0, 3, 6, 9, 12, 15]


def test_nothing_is_held_when_the_dataset_is_gone():
    dataset = autopipe.optimize(Dataset.range(6).map(add_one))
    list(dataset)
    gone = weakref.ref(dataset)
    del dataset
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"prefetch.size": 3}, "A knob must be one of"),
        ({"prefetch.buffer_size": 0}, "must be a whole number >= 1"),
        ({"prefetch.buffer_size": 2.5}, "but got 2.5"),
        ({"prefetch.buffer_size": True}, "but got True"),
        ({"thread_pool.size": -1}, "or 0 to leave it to TensorFlow"),
    ],
)
def test_a_wrong_knob_is_named_and_nothing_changes(knobs, words):
    dataset = autopipe.optimize(Dataset.range(6))
    before = dataset.knobs
    with pytest.raises(KnobError, match=words):
        dataset.retune({"thread_pool.size": 2, **knobs})
    assert dataset.knobs == before


def test_it_is_a_dataset_with_the_options_and_form_of_the_original():
    options = tf.data.Options()
    options.deterministic = False
    original = Dataset.range(10).map(add_one).batch(3).with_options(options)
    dataset = autopipe.optimize(original)

    assert isinstance(dataset, Dataset)
    assert dataset.original is original
    assert dataset.element_spec == original.element_spec
    assert dataset.cardinality() == 4
    assert dataset.options().deterministic is False
    assert flat(dataset.unbatch().take(2)) == [1, 2]


def test_optimizing_an_optimized_dataset_changes_nothing_more():
    once = autopipe.optimize(Dataset.range(10).map(add_one).batch(3), rules=["parallel_map", "prefetch_at_end"])
    twice = autopipe.optimize(once, rules=["parallel_map", "prefetch_at_end"])
    assert twice.tree == once.tree
    assert not twice.explain().rewriting.steps
