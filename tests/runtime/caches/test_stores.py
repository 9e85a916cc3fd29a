"""Iterators share what is full, and fill each their own."""

import resource
import shutil
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import tensorflow as tf
from failing_elements import failing_at

import autopipe
from autopipe.pipeline.disk_caches import caches_on_disk, with_files
from autopipe.pipeline.extract import extract
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.runtime.caches.memories import Memories
from autopipe.runtime.caches.stores import Stores

Dataset = tf.data.Dataset


def in_memory():
    tree = extract(Dataset.range(4).cache())
    return tree, Stores(tree, None, guarded=False)


def on_disk(folder):
    dataset = autopipe.optimize(
        Dataset.range(4).map(lambda x: tf.strings.length(tf.strings.as_string(x))),
        rules=("cache_fixed_work_on_disk",),
        disk_cache=folder,
        ram_budget=0,
    )
    assert caches_on_disk(dataset.tree)
    return dataset.tree, Stores(dataset.tree, DiskCache(folder), guarded=False)


def test_memories_that_nobody_fills_go_to_the_next_iterator():
    _tree, stores = in_memory()
    assert stores.next_memories(()) is stores.next_memories(())


def test_memories_that_another_iterator_fills_are_not_shared():
    _tree, stores = in_memory()
    first = stores.next_memories(())
    second = stores.next_memories([first])
    assert second is not first
    assert not stores.memories_are_full


def test_memories_that_an_iterator_left_before_its_end_are_not_taken_on():
    """Its prefetch may still go on after an element that failed, and call full what lacks that element."""
    tree = extract(Dataset.range(4).cache())
    stores = Stores(tree, None, guarded=True)
    left = stores.next_memories(())
    left.note_reader(Future())
    read = stores.next_memories(())
    assert read is not left
    assert list(read.build(tree).as_numpy_iterator()) == [0, 1, 2, 3]
    stores.note_end(read, ())
    assert stores.next_memories(()) is read


def test_memories_that_one_fills_of_which_nobody_knows_when_it_is_gone_are_not_taken_on():
    stores = Stores(extract(Dataset.range(4).cache()), None, guarded=True)
    left = stores.next_memories(())
    left.note_unseen_reader()
    assert stores.next_memories(()) is not left


def test_memories_are_taken_on_once_who_left_them_empty_is_gone():
    tree = extract(Dataset.range(4).cache())
    stores = Stores(tree, None, guarded=True)
    left, gone = stores.next_memories(()), Future()
    left.note_reader(gone)
    gone.set_result(None)
    assert stores.next_memories(()) is left


def test_full_memories_are_shared_also_when_others_were_begun_after_them():
    tree, stores = in_memory()
    first = stores.next_memories(())
    second = stores.next_memories([first])
    assert list(first.build(tree).as_numpy_iterator()) == [0, 1, 2, 3]
    assert stores.next_memories([first, second]) is first
    assert stores.memories_are_full


def test_what_is_derived_has_memories_of_its_own_until_some_are_full():
    tree, stores = in_memory()
    first = stores.next_memories(())
    derived = stores.derived_memories([first])
    assert derived is not first
    assert stores.is_derived(derived)
    assert list(first.build(tree).as_numpy_iterator()) == [0, 1, 2, 3]
    assert stores.derived_memories([first]) is first
    assert stores.is_derived(first)


def test_what_is_derived_after_an_element_failed_is_filled_anew():
    bad = tf.Variable(2, dtype=tf.int64)
    tree = extract(Dataset.range(4).map(failing_at(bad)).cache())
    stores = Stores(tree, None, guarded=True)
    lacking = stores.derived_memories(())
    with pytest.raises(tf.errors.InvalidArgumentError):
        iterator = iter(lacking.build(tree))
        _ = [next(iterator) for _ in range(4)]
    assert [int(x) for x in iterator] == [3]
    bad.assign(-1)
    derived = stores.derived_memories(())
    assert derived is not lacking
    assert list(derived.build(tree).as_numpy_iterator()) == [0, 1, 2, 3]
    assert stores.derived_memories(()) is derived


def test_the_next_iterator_reads_what_a_derived_one_has_filled():
    tree, stores = in_memory()
    derived = stores.derived_memories(())
    assert list(derived.build(tree).as_numpy_iterator()) == [0, 1, 2, 3]
    assert stores.next_memories(()) is derived


def test_a_successor_takes_the_place_of_the_memories_it_follows_only():
    tree, stores = in_memory()
    first = stores.next_memories(())
    second = stores.next_memories([first])
    stores.succeed(first, Memories(tree))
    assert stores.next_memories(()) is second
    successor = Memories(tree)
    stores.succeed(second, successor)
    assert stores.next_memories(()) is successor


def test_a_pipeline_without_caches_has_nothing_to_fill():
    stores = Stores(extract(Dataset.range(4)), None, guarded=False)
    assert not stores.has_memories
    assert stores.next_files() == ()
    assert stores.files_are_whole


def test_a_file_is_whole_once_somebody_read_to_its_end(tmp_path, monkeypatch):
    # What it is worth is not measured: that a disk is quicker is not so on every machine at every time.
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    tree, stores = on_disk(tmp_path)
    files = stores.next_files()
    assert not stores.files_are_whole
    memories = stores.next_memories(())
    assert len(list(memories.build(with_files(tree, files)))) == 4
    stores.note_end(memories, files)
    assert stores.files_are_whole
    assert stores.next_files() == files


def test_a_folder_that_is_gone_is_said_and_training_goes_on_without(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    folder = tmp_path / "kept"
    dataset = autopipe.optimize(
        Dataset.range(4).map(lambda x: tf.strings.length(tf.strings.as_string(x))),
        rules=("cache_fixed_work_on_disk",),
        disk_cache=folder,
        ram_budget=0,
    )
    shutil.rmtree(folder)
    folder.write_text("no folder")
    with pytest.warns(UserWarning, match=r"must stay writable, but '.*kept' is not any more"):
        assert list(map(int, dataset)) == [1, 1, 1, 1]
    folder.unlink()
    for _epoch in range(2):
        assert list(map(int, dataset)) == [1, 1, 1, 1]
    assert dataset._stores.files_are_whole


def test_a_disk_that_became_full_is_left_for_good_and_room_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    _tree, stores = on_disk(tmp_path)
    (begun,) = stores.next_files()
    written = Path(f"{begun}_0.data-00000-of-00001.tempstate1")
    written.write_bytes(b"a part of the elements")
    monkeypatch.setattr(DiskCache, "free", 1000)
    with pytest.warns(UserWarning, match="No space left on device.*goes on without"):
        assert stores.next_files([begun]) == ()
    assert written.exists(), "another iterator writes it"
    assert stores.next_files() == ()

    (begun,) = Stores(_tree, DiskCache(tmp_path), guarded=False).next_files()
    assert not written.parent.samefile(Path(begun).parent)


def test_what_was_written_of_a_full_disk_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    _tree, stores = on_disk(tmp_path)
    (begun,) = stores.next_files()
    Path(f"{begun}_0.data-00000-of-00001.tempstate1").write_bytes(b"a part of the elements")
    monkeypatch.setattr(DiskCache, "free", 1000)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert stores.next_files() == ()
    assert not Path(begun).parent.exists()


def test_nobody_is_waited_for_who_is_held_and_cannot_be_asked_for_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    waited = []
    monkeypatch.setattr("autopipe.runtime.caches.memories.Memories.await_answers", lambda *_: waited.append(True))
    _tree, stores = on_disk(tmp_path)
    memories = stores.next_memories(())
    stores.next_files((), [memories])
    assert not waited
    stores.next_files((), ())
    assert waited


def test_a_disk_with_little_room_is_written_to_as_long_as_nothing_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    tree, stores = on_disk(tmp_path)
    monkeypatch.setattr(DiskCache, "free", 1000)
    files, memories = stores.next_files(), stores.next_memories(())
    assert len(list(memories.build(with_files(tree, files)))) == 4
    stores.note_end(memories, files)
    assert stores.next_files() == files


def ask(iterator):
    return next(iterator)


def ask_for_an_optional(iterator):
    return iterator.get_next_as_optional().get_value()


@pytest.mark.usefixtures("as_fast")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", [{"disk_cache": "kept", "ram_budget": 0}, {}], ids=["disk", "memory"])
@pytest.mark.parametrize("asking", [ask, ask_for_an_optional, tf.function(ask)], ids=["eager", "optional", "traced"])
def test_an_element_that_failed_fails_in_later_epochs_too_where_its_consumer_reads_on(
    asking, where, tmp_path, monkeypatch
):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    monkeypatch.chdir(tmp_path)
    # Nobody knows how many there are.
    numbers = Dataset.range(9).filter(lambda x: x < 8)
    inverses = numbers.map(lambda x: 60 // (tf.strings.to_number(tf.strings.as_string(x), tf.int64) - 4))
    rules = ("cache_fixed_work", "cache_fixed_work_on_disk")
    dataset = autopipe.optimize(inverses, rules=rules, **where)
    assert dataset.plan.rules
    for _epoch in range(3):
        iterator = iter(dataset)
        assert [int(asking(iterator)) for _ in range(4)] == [60 // (x - 4) for x in range(4)]
        with pytest.raises(tf.errors.InvalidArgumentError):
            asking(iterator)
        assert [int(asking(iterator)) for _ in range(3)] == [60, 30, 20]
        # Of an optional without a value, the value is an argument that is not valid.
        with pytest.raises((tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError, StopIteration)):
            asking(iterator)


@pytest.mark.usefixtures("as_fast")
@pytest.mark.parametrize("traced", [False, True])
def test_a_disk_cache_is_whole_for_later_runs_too_once_somebody_took_as_many_steps_as_an_epoch_has(
    traced, tmp_path, monkeypatch
):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    # A busy machine may take long to hand on an element.
    monkeypatch.setattr("autopipe.runtime.caches.memories._PATIENCE_SECONDS", 5)

    def optimized():
        # Nobody knows how many there are.
        lengths = Dataset.range(9).filter(lambda x: x < 8).map(lambda x: tf.strings.length(tf.strings.as_string(x)))
        rules = ("cache_fixed_work_on_disk",)
        return autopipe.optimize(lengths.repeat().batch(4), rules=rules, disk_cache=tmp_path, ram_budget=0)

    def fit(dataset, steps):
        iterator = iter(dataset)
        take = tf.function(ask) if traced else ask
        for _ in range(steps):
            take(iterator)
        attempts = {path.parent for path in tmp_path.glob("*/*/data*")}
        return iterator._autopipe_reading.writes, attempts

    dataset = optimized()
    assert caches_on_disk(dataset.tree)
    first, begun = fit(dataset, 1)
    second, whole = fit(dataset, 2)
    third, same = fit(dataset, 3)
    later, still = fit(optimized(), 1)
    assert (first, second, third, later) == (True, True, False, False)
    assert len(whole - begun) == 1
    assert whole >= same == still


@pytest.fixture
def small_files():
    """Let this process write files of a megabyte at the most, as where its user may not take more of a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("held", [False, True])
def test_a_disk_that_takes_no_more_is_left_for_good_also_once_what_failed_is_gone(held, tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    dataset = autopipe.optimize(
        Dataset.range(12).map(lambda x: tf.fill([100_000], tf.strings.length(tf.strings.as_string(x)))),
        rules=("cache_fixed_work_on_disk",),
        disk_cache=tmp_path,
        ram_budget=0,
    )
    iterator = iter(dataset)
    with pytest.raises(tf.errors.OpError, match="File too large"):
        _ = list(iterator)
    assert list(tmp_path.glob("*/*/data*"))
    if not held:
        del iterator
        for _ in range(500):
            if list(tmp_path.glob("*/*/data*")):
                time.sleep(0.01)
        assert not list(tmp_path.glob("*/*/data*"))
    with pytest.warns(UserWarning, match="File too large.*goes on without"):
        assert len(list(dataset)) == 12
    assert len(list(dataset)) == 12


@pytest.mark.usefixtures("as_fast")
@pytest.mark.parametrize("source", [Dataset.range(6), Dataset.range(9).take(6)], ids=["counted", "watched"])
def test_an_iterator_that_fills_a_cache_is_saved_and_restored_in_mid_epoch(source, tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    # It may fail: an element must not be missing.
    texts = source.map(lambda x: 60 // (1 + tf.strings.to_number(tf.strings.as_string(x), tf.int64)))
    dataset = autopipe.optimize(texts, rules=("cache_fixed_work",))
    expected = [60, 30, 20, 15, 12, 10]
    assert "cache_fixed_work" in dataset.plan.rules
    iterator = iter(dataset)
    first = [int(next(iterator)) for _ in range(2)]
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "saved")
    another = iter(dataset)
    tf.train.Checkpoint(iterator=another).restore(path)
    for rest in (iterator, another):
        assert [*first, *map(int, rest)] == expected
    assert [list(map(int, dataset)) for _ in range(2)] == [expected] * 2


def test_to_ask_whether_memories_are_full_changes_nothing():
    data = autopipe.optimize(tf.data.Dataset.range(20).map(lambda x: x + 1).cache(), rules=(), seconds=0)
    iterator = iter(data)
    next(iterator)
    assert data.start_early() is None
    assert len(list(iterator)) == 19
    del iterator
    assert data.caches_are_full
