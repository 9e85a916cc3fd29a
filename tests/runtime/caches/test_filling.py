"""Who fills a cache does not wait until it is full, and gives what its author's pipeline gives."""

import pytest
import tensorflow as tf
from caching_shuffled_work import COUNT, caching, rewritten, slow, work
from failing_elements import failing_at
from retuning import numbers, read_retuning

from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.plans.plan import Plan
from autopipe.runtime.caches.filling import while_filling
from autopipe.runtime.dataset import OptimizedDataset

Dataset = tf.data.Dataset


def test_the_first_batch_takes_no_more_calls_than_as_written():
    calls = []
    dataset = caching(slow(calls))
    assert one_line(dataset.tree).startswith(f"range(0, {COUNT}) | map(")
    calls.clear()
    iterator = iter(dataset)
    next(iterator)
    assert len(calls) < COUNT // 2
    assert numbers([*iterator]) == sorted(set(range(COUNT)) - set(calls[:4]))


def test_every_epoch_has_all_elements_in_an_order_of_its_own_and_the_work_is_done_once():
    calls = []
    dataset = caching(slow(calls))
    calls.clear()
    orders = [tuple(int(x) for batch in dataset for x in batch) for _epoch in range(4)]
    assert [sorted(order) for order in orders] == [list(range(COUNT))] * 4
    assert len(set(orders)) == 4
    assert tuple(range(COUNT)) not in orders
    assert sorted(calls) == list(range(COUNT))
    assert dataset.caches_are_full


@pytest.mark.deep
def test_elements_wander_as_far_in_the_first_epoch_as_in_later_ones():
    written = slow([])
    rewriting = rewritten(written)
    runs = [OptimizedDataset(written, rewriting, Plan("none")) for _run in range(30)]
    for _epoch in range(2):
        places = [[int(x) for batch in dataset for x in batch].index(0) for dataset in runs]
        # Of 30 draws from 40 places.
        assert min(places) < COUNT // 3
        assert max(places) > COUNT - COUNT // 3


def test_it_is_changed_in_the_midst_of_filling_without_losing_or_repeating_any():
    calls = []
    dataset = caching(slow(calls).prefetch(2))
    for _epoch in range(2):
        assert numbers(read_retuning(dataset)) == list(range(COUNT))


def test_an_iterator_that_was_left_leaves_nothing_behind():
    dataset = caching(slow([]))
    for _look in range(2):
        next(iter(dataset))
    assert not dataset.caches_are_full
    for _epoch in range(2):
        assert numbers(dataset) == list(range(COUNT))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", [0, 17, COUNT - 1])
def test_an_element_that_fails_does_so_in_every_epoch(number):
    checked = failing_at(tf.constant(number, tf.int64))
    dataset = caching(Dataset.range(COUNT).shuffle(COUNT).map(lambda x: work(checked(x))).batch(4))
    assert while_filling(dataset.tree) is not dataset.tree
    for _epoch in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(dataset)
    assert not dataset.caches_are_full


@pytest.mark.parametrize(
    "written",
    {
        "a smaller buffer": lambda names: names.shuffle(COUNT - 1).map(work).batch(4),
        "a seed": lambda names: names.shuffle(COUNT, seed=1).map(work).batch(4),
        "one order for all epochs": lambda names: (
            names.shuffle(COUNT, reshuffle_each_iteration=False).map(work).batch(4)
        ),
        "a repeat after it": lambda names: names.shuffle(COUNT).map(work).repeat(2).batch(4),
        "work before the shuffle": lambda names: names.map(work).shuffle(COUNT).map(work).batch(4),
        "an unknown number": lambda names: names.filter(lambda x: x >= 0).shuffle(COUNT).map(work).batch(4),
    }.items(),
    ids=lambda case: case[0],
)
def test_nothing_else_is_moved(written):
    done = rewritten(written[1](Dataset.range(COUNT)))
    assert while_filling(done.after) is done.after


def test_neither_where_one_of_several_caches_may_be_full_before_the_others():
    def side(count):
        return Dataset.range(count).shuffle(count).map(work)

    once = caching(Dataset.zip((side(COUNT), side(COUNT + 9))).batch(4))
    orders = [tuple(int(x) for batch, _ in once for x in batch) for _epoch in range(3)]
    assert len(set(orders)) == 3
    both = [ir.Shuffle(input=extract(side(9).cache()), buffer_size=9, from_before_the_work=True) for _side in range(2)]
    tree = ir.Concatenate(first=both[0], second=both[1])
    assert while_filling(tree) is tree
    on_disk = ir.Cache(input=extract(side(9)), on_disk=True)
    tree = ir.Shuffle(input=on_disk, buffer_size=9, from_before_the_work=True)
    assert while_filling(tree) is tree


def test_neither_where_a_repeat_comes_after_what_was_optimized():
    tree = rewritten(slow([])).after
    assert while_filling(tree) is not tree
    assert while_filling(tree, (ir.Repeat(input=tree),)) is tree


def test_what_holds_elements_ready_stays_where_it_is():
    written = Dataset.range(COUNT).shuffle(COUNT).prefetch(3).map(work).map(lambda x: x + 1).batch(4)
    filling = while_filling(rewritten(written).after)
    stages = [type(node).__name__ for node in trees.walk(filling)]
    assert stages.index("Shuffle") > stages.index("Cache")
    assert stages[-1] == "Range"
    assert numbers(caching(written)) == list(range(1, COUNT + 1))


def test_an_iterator_knows_the_stages_that_it_runs():
    dataset = caching(slow([]))
    first = iter(dataset)
    assert one_line(first._autopipe_reading.tree).startswith(f"range(0, {COUNT}) | shuffle({COUNT}) | map(")
    list(first)
    later = iter(dataset)
    assert f"cache() | shuffle({COUNT})" in one_line(later._autopipe_reading.tree)
