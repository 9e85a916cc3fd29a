"""Who looks at the first elements does not wait for caches to be full, and fills none that others read."""

import math

import pytest
import tensorflow as tf
from caching_shuffled_work import COUNT, caching, slow
from retuning import numbers

from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.runtime.caches.small_takes import LookingDataset

LOOKED_AT = pytest.mark.parametrize(
    "looked_at",
    [lambda dataset: dataset, lambda dataset: dataset.map(lambda x: x), lambda dataset: dataset.prefetch(1)],
    ids=["itself", "mapped", "prefetched"],
)


def elements(dataset):
    return [int(x) for batch in dataset for x in batch]


def optimized(calls):
    dataset = caching(slow(calls))
    calls.clear()
    return dataset


@LOOKED_AT
def test_the_first_elements_take_no_more_calls_than_as_written(looked_at):
    calls = []
    dataset = optimized(calls)
    seen = elements(looked_at(dataset).take(1))
    assert set(seen) <= set(calls)
    assert len(seen) == 4
    assert len(calls) < COUNT // 2


def test_looking_leaves_the_caches_of_training_to_training():
    calls = []
    dataset = optimized(calls)
    elements(dataset.take(1))
    assert not dataset.caches_are_full
    calls.clear()
    assert sorted(elements(dataset)) == sorted(elements(dataset)) == sorted(calls) == list(range(COUNT))


@LOOKED_AT
def test_once_caches_are_full_a_look_reads_them_also_where_it_was_made_earlier(looked_at):
    calls = []
    dataset = optimized(calls)
    followed = looked_at(dataset)
    earlier = followed.take(1)
    elements(dataset)
    calls.clear()
    assert len(elements(earlier)) == len(elements(earlier)) == len(elements(followed.take(1))) == 4
    assert not calls


def test_every_pass_takes_no_more_calls_than_as_written_and_has_an_order_of_its_own():
    calls = []
    taken = optimized(calls).take(3)
    assert isinstance(taken, LookingDataset)
    passes = [tuple(elements(taken)) for _pass in range(3)]
    assert len(set(passes)) == 3
    assert all(len(set(each)) == 12 for each in passes)
    assert len(calls) < 3 * COUNT * 2 // 3


def test_who_goes_on_with_the_first_elements_reads_them_for_epochs_and_fills_caches():
    calls = []
    taken = optimized(calls).take(3)
    for _pass in range(5):
        elements(taken)
    calls.clear()
    assert len(elements(taken)) == 12
    assert not calls


def part_mixed(names):
    return names.shuffle(COUNT // 2)


def costs_of_passes(shuffled, passes=7):
    """How many calls each pass over three batches takes where nothing is read ahead."""
    calls, costs, options = [], [], tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    taken = caching(slow(calls, shuffled).with_options(options)).take(3)
    for _pass in range(passes):
        calls.clear()
        assert len(set(elements(taken))) == 12
        costs.append(len(calls))
    return costs


def test_caches_are_filled_once_as_many_elements_were_looked_at_as_there_are():
    assert costs_of_passes(lambda names: names.shuffle(COUNT)) == [12] * 4 + [COUNT, 0, 0]


@pytest.mark.parametrize(
    "shuffled",
    [part_mixed, lambda names: names.filter(lambda x: x >= 0).apply(part_mixed)],
    ids=["of a known number", "of an unknown number"],
)
def test_over_a_shuffle_smaller_than_the_data_every_pass_takes_as_many_calls_as_written(shuffled):
    assert costs_of_passes(shuffled) == [12] * 7


def test_over_a_shuffle_smaller_than_the_data_an_earlier_take_reads_caches_that_are_full_by_then():
    calls = []
    dataset = caching(slow(calls, part_mixed))
    earlier = dataset.take(3)
    elements(earlier)
    elements(dataset)
    assert dataset.caches_are_full
    calls.clear()
    assert len(set(elements(earlier))) == 12
    assert not calls


@pytest.mark.parametrize(("passes", "looks"), [(0, 0), (2, 2), (math.inf, 4)])
def test_as_many_passes_look_as_were_allowed(passes, looks):
    taken = LookingDataset(lambda: tf.data.Dataset.range(2), look=lambda: iter(["looked"]), passes=passes)
    assert [len(list(taken)) for _pass in range(4)] == [1] * looks + [2] * (4 - looks)


def test_who_goes_on_with_the_first_elements_of_what_must_end_takes_them_from_one_cache():
    calls = []
    dataset = caching(slow(calls, lambda names: names.shard(1, 0).shuffle(COUNT)))
    assert dataset.must_end
    taken = dataset.take(3)
    for _pass in range(5):
        elements(taken)
    calls.clear()
    elements(taken)
    assert not calls


def test_a_take_of_many_of_an_unknown_number_fills_caches_as_any_other_dataset():
    dataset = optimized([]).filter(lambda x: tf.size(x) > 0)
    assert isinstance(dataset.take(3), LookingDataset)
    assert not isinstance(dataset.take(1000), LookingDataset)


def test_a_take_of_most_fills_the_caches_of_all_that_is_derived():
    calls = []
    taken = optimized(calls).take(8)
    assert not isinstance(taken, LookingDataset)
    passes = [tuple(elements(taken)) for _pass in range(3)]
    assert len(set(passes)) == 3
    assert sorted(calls) == list(range(COUNT))


def test_it_is_a_dataset_as_any_other():
    taken = optimized([]).take(3)
    assert taken.element_spec == optimized([]).element_spec
    assert int(taken.cardinality()) == 3
    assert len(numbers([*taken.map(lambda x: x + 1)])) == 12
    assert one_line(extract(taken)).endswith("| take(3)")
    assert int(tf.function(lambda: taken.reduce(tf.constant(0), lambda so_far, _: so_far + 1))()) == 3


def test_a_take_of_what_nobody_waits_for_is_tensorflows_own():
    taken = caching(tf.data.Dataset.range(COUNT).map(lambda x: x + 1)).take(2)
    assert not isinstance(taken, LookingDataset)
    assert [int(x) for x in taken] == [1, 2]


def test_who_takes_the_first_elements_of_a_repeated_dataset_fills_caches_once_these_are_as_many_as_there_are():
    calls = []
    taken = optimized(calls).repeat().take(4)
    for _pass in range(4):
        elements(taken)
    calls.clear()
    assert len(elements(taken)) == 16
    assert not calls
