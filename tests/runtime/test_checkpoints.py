"""Iterators that could be saved in a checkpoint still can be, in any epoch; those that could not still cannot."""

import gc
import time
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf
from disposing import wait_for_disposal
from retuning import listening

import autopipe
from autopipe.planning.measuring.measure import SampleMeasurements

Dataset = tf.data.Dataset


@pytest.fixture
def worth_caching(monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))


def slow(x):
    return tf.reduce_sum(tf.linalg.inv(tf.eye(200) + tf.cast(x, tf.float32)))


def memoized(after=lambda x: x):
    dataset = autopipe.optimize(Dataset.range(40).shuffle(40, seed=3).take(32).map(slow).map(after))
    assert "cache_results" in dataset.plan.rules
    return dataset


def test_an_iterator_goes_on_from_a_checkpoint(tmp_path):
    iterator = iter(memoized())
    for _ in range(10):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "saved"))
    expected = [float(x) for x in iterator]
    checkpoint.restore(path)
    assert [float(x) for x in iterator] == expected
    assert len(expected) == 22


def test_so_does_one_over_batches_of_what_was_optimized(tmp_path):
    iterator = iter(memoized().batch(4))
    next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "saved"))
    expected = [batch.numpy().tolist() for batch in iterator]
    checkpoint.restore(path)
    assert [batch.numpy().tolist() for batch in iterator] == expected
    assert len(expected) == 7


def test_another_process_would_work_out_what_it_needs(tmp_path):
    first, other = iter(memoized()), iter(memoized())
    for _ in range(10):
        next(first)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(iterator=other).restore(path)
    assert [float(x) for x in other] == [float(x) for x in first]


def of_unknown_number():
    return Dataset.range(40).filter(lambda x: x >= 0).map(slow)


def counted():
    return Dataset.range(40).map(slow).batch(2)


def mixed_after_a_cache():
    files = Dataset.range(4).shuffle(4)
    rows = files.interleave(lambda x: Dataset.range(10 * x, 10 * x + 10), num_parallel_calls=2, deterministic=False)
    return rows.shuffle(4).map(slow).map(lambda x: tf.strings.as_string(x))


WRITTEN = {
    of_unknown_number: "cache_fixed_work",
    counted: "cache_fixed_work",
    mixed_after_a_cache: "cache_free_order",
}


@pytest.fixture(autouse=True)
def _nobody_else_listens(monkeypatch):
    """Of trainings that were interrupted, callbacks may still be there: what is read while these listen is metered."""
    monkeypatch.setattr("autopipe.runtime.readings._observers", weakref.WeakSet())


def everything(elements):
    return sorted(np.concatenate([np.ravel(each.numpy()) for each in elements]).tolist())


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("make", "listens"), [*zip(WRITTEN, [False] * 3, strict=True), (of_unknown_number, True)])
@pytest.mark.parametrize("epochs", [(0, 2), (2, 0), (2, 2)], ids=lambda each: f"{each[0]} to {each[1]}")
@pytest.mark.usefixtures("as_fast", "worth_caching")
def test_an_iterator_of_any_epoch_goes_on_where_one_of_another_epoch_was(make, listens, epochs, tmp_path):
    saving = autopipe.optimize(make(), rules=[WRITTEN[make], "prefetch_at_end"])
    restoring = autopipe.optimize(make(), plan=saving.plan)
    assert WRITTEN[make] in saving.plan.rules
    whole = everything(make())
    for dataset, before in zip((saving, restoring), epochs, strict=True):
        for _ in range(before):
            assert everything(dataset) == whole
    iterator = iter(saving)
    first = [next(iterator) for _ in range(7)]
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    with listening() if listens else nullcontext([]) as readings:
        another = iter(restoring)
        tf.train.Checkpoint(iterator=another).restore(path)
        restoring.retune({"prefetch.buffer_size": 3})
        rest = list(another)
    assert everything([*first, *rest]) == whole
    # What was saved was not metered.
    assert [reading.stall for reading in readings[:1]] == [None] * listens
    for dataset in (saving, restoring, restoring):
        assert everything(dataset) == whole


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("worth_caching")
@pytest.mark.parametrize("epochs", [(0, 0), (0, 2), (2, 0)], ids=lambda each: f"{each[0]} to {each[1]}")
def test_orders_of_a_seed_go_on_as_they_do_without_autopipe(epochs, tmp_path):
    def run(dataset, another, folder):
        for each, before in zip((dataset, another), epochs, strict=True):
            for _ in range(before):
                list(each)
        iterator = iter(dataset)
        first = [next(iterator) for _ in range(7)]
        path = tf.train.Checkpoint(iterator=iterator).save(str(folder / "saved"))
        going_on = iter(another)
        tf.train.Checkpoint(iterator=going_on).restore(path)
        return [[float(x) for x in each] for each in (first, going_on, another, another)]

    def written():
        return of_unknown_number().shuffle(16, seed=4).map(lambda x: x)

    dataset = autopipe.optimize(written(), keeps="sequence")
    another = autopipe.optimize(written(), plan=dataset.plan)
    assert "cache_fixed_work" in dataset.plan.rules
    assert run(dataset, another, tmp_path / "optimized") == run(written(), written(), tmp_path / "written")


def test_no_order_of_a_seed_is_left_out_where_a_shuffle_had_come_to_its_end(tmp_path):
    """TensorFlow then restores the orders of later epochs by how many iterators were made."""

    def run(dataset, another, folder):
        iterator = iter(dataset)
        first = next(iterator)
        time.sleep(0.2)  # All is read ahead meanwhile.
        path = tf.train.Checkpoint(iterator=iterator).save(str(folder / "saved"))
        going_on = iter(another)
        tf.train.Checkpoint(iterator=going_on).restore(path)
        return [[x.numpy().tolist() for x in each] for each in ((first, *going_on), another, another)]

    def written():
        return Dataset.range(10).shuffle(10, seed=7).batch(4).map(lambda x: x + 1)

    optimized, other = (autopipe.optimize(written(), keeps="sequence", seconds=0) for _ in range(2))
    assert run(optimized, other, tmp_path / "optimized") == run(written(), written(), tmp_path / "written")


@pytest.mark.usefixtures("worth_caching")
def test_a_cache_is_not_taken_for_whole_where_an_element_failed_before_it_was_saved(tmp_path):
    def made():
        numbers = Dataset.range(9).filter(lambda x: x < 8)
        return numbers.map(lambda x: 60 // (tf.strings.to_number(tf.strings.as_string(x), tf.int64) - 2))

    dataset = autopipe.optimize(made(), rules=("cache_fixed_work",))
    assert dataset.plan.rules
    iterator = iter(dataset)
    assert [int(next(iterator)) for _ in range(2)] == [-30, -60]
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    another = autopipe.optimize(made(), plan=dataset.plan)
    going_on = iter(another)
    tf.train.Checkpoint(iterator=going_on).restore(path)
    assert list(map(int, going_on)) == [60, 30, 20, 15, 12]
    assert not another.caches_are_full
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(another)


@pytest.mark.usefixtures("worth_caching")
def test_a_cache_is_whole_where_its_iterator_was_saved_after_the_last_of_a_known_number(tmp_path):
    def made():
        numbers = Dataset.range(20).shard(2, 0)
        return numbers.map(lambda x: 60 // (tf.strings.to_number(tf.strings.as_string(x), tf.int64) + 1)).prefetch(4)

    dataset = autopipe.optimize(made(), rules=("cache_fixed_work",))
    assert dataset.plan.rules
    assert dataset.must_end
    iterator = iter(dataset)
    read = [int(next(iterator)) for _ in range(10)]
    time.sleep(0.1)  # The prefetch comes to the end meanwhile.
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    another = autopipe.optimize(made(), plan=dataset.plan)
    going_on = iter(another)
    tf.train.Checkpoint(iterator=going_on).restore(path)
    assert not list(going_on)
    assert another.caches_are_full
    assert list(map(int, another)) == read


@pytest.mark.usefixtures("worth_caching")
def test_one_that_was_read_goes_back_to_where_one_of_another_epoch_was(tmp_path):
    dataset = autopipe.optimize(of_unknown_number())
    first = iter(dataset)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "saved"))
    whole = everything(first)
    later = iter(dataset)
    for _ in range(30):
        next(later)
    tf.train.Checkpoint(iterator=later).restore(path)
    assert everything(later) == everything(dataset) == whole


def chosen_once():
    return Dataset.range(40).shuffle(40).take(20).cache().map(slow).batch(4)


@pytest.mark.usefixtures("worth_caching")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("held", [False, True], ids=["let go of", "held"])
def test_what_a_cache_chose_is_read_by_later_iterators_too(held, tmp_path):
    saving = autopipe.optimize(chosen_once())
    restoring = autopipe.optimize(chosen_once(), plan=saving.plan)
    assert "cache_fixed_work" in saving.plan.rules
    whole = everything(saving)
    path = tf.train.Checkpoint(iterator=iter(saving)).save(str(tmp_path / "saved"))
    iterator = iter(restoring)
    tf.train.Checkpoint(iterator=iterator).restore(path)
    assert everything(iterator) == whole
    if not held:
        del iterator
    assert restoring.caches_are_full
    assert everything(restoring) == everything(restoring) == whole


@pytest.mark.usefixtures("worth_caching")
def test_what_a_cache_chose_is_read_on_where_its_first_epoch_is_nearly_over(tmp_path):
    saving = autopipe.optimize(chosen_once())
    restoring = autopipe.optimize(chosen_once(), plan=saving.plan)
    iterator = iter(saving)
    first = [next(iterator) for _ in range(4)]
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    another = iter(restoring)
    tf.train.Checkpoint(iterator=another).restore(path)
    whole = everything([*first, *another])
    assert restoring.caches_are_full
    assert everything(restoring) == whole


@pytest.mark.parametrize("sizes", [(5, 20), (20, 5)], ids=["larger", "smaller"])
def test_one_whose_shuffle_has_another_size_goes_on_with_the_size_that_was_saved(sizes, tmp_path):
    dataset = autopipe.optimize(Dataset.range(60).shuffle(5))
    dataset.retune({"shuffle.buffer_size": sizes[0]})
    iterator = iter(dataset)
    first = [next(iterator) for _ in range(23)]
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    dataset.retune({"shuffle.buffer_size": sizes[1]})
    another = iter(dataset)
    tf.train.Checkpoint(iterator=another).restore(path).assert_existing_objects_matched()
    dataset.retune({"prefetch.buffer_size": 3})
    assert everything([*first, *another]) == everything(dataset) == list(range(60))


def test_other_stages_are_refused_with_what_to_do_and_the_iterator_begins_anew(tmp_path):
    written = autopipe.optimize(of_unknown_number(), rules=[])
    path = tf.train.Checkpoint(iterator=iter(written)).save(str(tmp_path / "saved"))
    iterator = iter(autopipe.optimize(of_unknown_number().batch(2)))
    with pytest.raises(tf.errors.NotFoundError, match=r"make the dataset with optimize\(dataset, plan=path\)"):
        tf.train.Checkpoint(iterator=iterator).restore(path)
    assert everything(iterator) == everything(of_unknown_number())


@pytest.mark.usefixtures("worth_caching")
def test_one_that_writes_a_disk_cache_is_refused_and_one_that_reads_it_is_saved(tmp_path):
    def dataset(plan=None):
        return autopipe.optimize(of_unknown_number(), disk_cache=tmp_path / "kept", ram_budget=1, plan=plan)

    saving = dataset()
    assert "cache_fixed_work_on_disk" in saving.plan.rules
    with pytest.raises(tf.errors.FailedPreconditionError, match="once its disk caches are whole"):
        tf.train.Checkpoint(iterator=iter(saving)).save(str(tmp_path / "saved"))
    whole = everything(saving)
    iterator = iter(saving)
    first = [next(iterator) for _ in range(7)]
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    restoring = dataset(saving.plan)
    another = iter(restoring)
    tf.train.Checkpoint(iterator=another).restore(path)
    assert everything([*first, *another]) == everything(restoring) == whole


def test_what_draws_is_refused_as_it_was(tmp_path):
    dataset = memoized(lambda x: x + tf.random.uniform([]))
    for each in (dataset, dataset.original):
        with pytest.raises(tf.errors.FailedPreconditionError, match="RandomUniform is stateful"):
            tf.train.Checkpoint(iterator=iter(each)).save(str(tmp_path / "saved"))


def test_an_iterator_is_gone_when_nobody_holds_it():
    iterator = iter(memoized())
    gone = weakref.ref(iterator)
    gc.disable()
    try:
        del iterator
        wait_for_disposal()
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("order", ["read save restore", "read save rest restore rest"])
def test_a_restore_draws_as_many_seeded_orders_as_tensorflow_does(order, tmp_path):
    def later_epochs(dataset):
        iterator = iter(dataset)
        checkpoint = tf.train.Checkpoint(iterator=iterator)
        path = None
        for step in order.split():
            match step:
                case "read":
                    next(iterator)
                case "save":
                    path = checkpoint.write(str(tmp_path / "saved"))
                case "restore":
                    checkpoint.read(path).assert_consumed()
                case "rest":
                    list(iterator)
        return [[batch.tolist() for batch in dataset.as_numpy_iterator()] for _epoch in range(3)]

    def written():
        return Dataset.range(12).shuffle(12, seed=1).batch(4)

    assert later_epochs(autopipe.optimize(written(), keeps="sequence", rules=[])) == later_epochs(written())
