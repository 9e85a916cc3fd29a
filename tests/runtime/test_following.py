"""Maps and prefetches after an optimized dataset stay live; all else is TensorFlow's own."""

import gc
import weakref

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.runtime.following import FollowingDataset
from autopipe.runtime.reading import observe, stop_observing


class Listener:
    def __init__(self):
        self.readings = []

    def reading_started(self, reading):
        self.readings.append(reading)


@pytest.fixture
def listener():
    made = Listener()
    observe(made)
    yield made
    stop_observing(made)


def tens(count=8, **options):
    return autopipe.optimize(tf.data.Dataset.range(count).map(lambda x: x * 10, num_parallel_calls=2), **options)


def values(dataset):
    return [int(x) for x in dataset]


def test_its_elements_spec_length_and_options_are_those_of_the_whole_pipeline():
    optimized = tens()
    options = tf.data.Options()
    options.deterministic = True
    after = autopipe.optimize(tf.data.Dataset.range(4).with_options(options)).map(lambda x: (x, [x, x])).prefetch(2)
    assert after.element_spec == (tf.TensorSpec([], tf.int64), tf.TensorSpec([2], tf.int64))
    assert int(after.cardinality()) == 4
    assert after.options().deterministic is True
    assert values(optimized.map(lambda x: x + 1)) == [10 * x + 1 for x in range(8)]
    assert isinstance(optimized.prefetch(1).map(lambda x: x), FollowingDataset)


def test_a_swap_after_every_element_loses_and_repeats_none(listener):
    optimized = tens(20)
    after = optimized.map(lambda x: x + 1, num_parallel_calls=3).prefetch(2)
    for _ in range(2):
        seen = []
        for number, x in enumerate(after):
            seen.append(int(x))
            optimized.retune({"prefetch.buffer_size": 1 + number % 5})
            assert listener.readings[-1].knobs == optimized.knobs
        assert seen == [10 * x + 1 for x in range(20)]


def test_observers_see_it_read_to_the_last_stage(listener):
    after = tens(5).map(lambda x: x + 1)
    assert len(values(after)) == 5
    (reading,) = listener.readings
    assert reading.stall.read().batches == 5
    assert one_line(reading.tree) == one_line(extract(after))
    assert one_line(reading.tree).startswith(one_line(reading.dataset.tree))


def test_memory_caches_are_shared_with_the_dataset_it_follows():
    made = tf.Variable(0)

    def count(x):
        made.assign_add(1)
        return x

    optimized = autopipe.optimize(tf.data.Dataset.range(6).map(count).cache(), rules=[])
    assert values(optimized.map(lambda x: x + 1)) == [1, 2, 3, 4, 5, 6]
    assert values(optimized.map(lambda x: x + 2)) == [2, 3, 4, 5, 6, 7]
    assert values(optimized) == [0, 1, 2, 3, 4, 5]
    assert int(made) == 6


def test_an_iterator_that_was_started_early_goes_only_to_who_asks_for_the_same_stages():
    optimized = tens()
    after = optimized.map(lambda x: x + 1)
    other = optimized.map(lambda x: x + 2)
    stages = after._stages
    early = optimized.start_early(stages)
    optimized.offer(early)
    assert iter(other) is not early
    early = optimized.start_early(stages)
    optimized.offer(early)
    assert iter(after) is early
    assert values(early) == [10 * x + 1 for x in range(8)]


def test_python_code_after_it_is_not_started_early():
    optimized = tens()
    after = optimized.map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    assert optimized.start_early() is not None
    assert optimized.start_early(after._stages) is None


def test_it_can_be_optimized_again():
    after = tens().map(lambda x: x + 1)
    assert values(autopipe.optimize(after)) == values(after)


@pytest.mark.parametrize(
    "derive", [lambda d: d.take(3), lambda d: d.batch(2), lambda d: d.repeat(2), lambda d: d.shuffle(2)]
)
def test_other_stages_after_it_are_those_of_any_dataset(derive):
    assert not isinstance(derive(tens()), FollowingDataset)
    assert sum(1 for _ in derive(tens().map(lambda x: x + 1))) == sum(1 for _ in derive(tf.data.Dataset.range(8)))


def test_inside_a_traced_function_it_is_read_as_any_dataset():
    after = tens().map(lambda x: x + 1)

    @tf.function
    def total():
        return after.map(lambda x: x * 2).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    assert int(total()) == 2 * sum(values(after))


def test_pipelines_of_stages_that_nobody_holds_are_let_go():
    optimized = tens()
    gone = []
    for number in range(3):
        after = optimized.map(lambda x, number=number: x + number)
        values(after)
        gone.append(weakref.ref(after._stages[0].fn.concrete))
    values(optimized.map(lambda x: x))
    del after
    gc.collect()
    assert [ref() is None for ref in gone[:2]] == [True, True]
