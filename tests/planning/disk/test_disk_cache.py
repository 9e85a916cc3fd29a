"""A cache on disk is read when it is whole and right, whatever happened before and happens beside it."""

import errno
import gc
import os
import time
from pathlib import Path

import pytest
import tensorflow as tf
from elements_on_disk import attempts, cached, expected, failing, first_numbers, numbers

from autopipe.errors import ArgumentError
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.disk import attempts as attempts_module
from autopipe.planning.disk import disk_cache, writers
from autopipe.planning.disk.content import UnknownContentError
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.measuring import measure
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import MeasurementError

Dataset = tf.data.Dataset


def written(folder, tree=None):
    name = DiskCache(folder).filename(tree or numbers())
    assert first_numbers(cached(tree or numbers(), name)) == expected()
    return name


def marked(name):
    """Wait until a complete attempt is on the disk for certain."""
    for _ in range(500):
        if (Path(name).parent / "complete").exists():
            return True
        time.sleep(0.01)
    return False


def test_what_is_complete_is_read_and_nothing_is_made_again(tmp_path):
    name = written(tmp_path)
    assert DiskCache(tmp_path).filename(numbers()) == name
    assert first_numbers(cached(failing(), name)) == expected()
    assert marked(name)


def test_each_iterator_over_what_is_not_complete_has_a_name_of_its_own(tmp_path):
    disk = DiskCache(tmp_path)
    first = disk.filename(numbers())
    iterator = iter(cached(numbers(), first))
    next(iterator)
    second = disk.again(first)
    assert second != first
    assert first_numbers(cached(numbers(), second)) == expected()
    assert [int(x[0]) for x in iterator] == expected()[1:]
    assert disk.again(second) == second
    assert disk.again(first) == first


def test_an_epoch_not_read_to_its_end_is_never_read(tmp_path):
    disk = DiskCache(tmp_path)
    tree = numbers(5000)
    first = disk.filename(tree)
    iterator = iter(cached(tree, first))
    next(iterator)
    del iterator
    gc.collect()
    second = disk.again(first)
    assert first_numbers(cached(tree, second)) == expected(5000)
    assert disk.again(second) == second == disk.filename(tree)


def test_a_cache_from_which_an_element_is_lost_is_not_complete(tmp_path):
    def fails_once(x):
        return tf.debugging.check_numerics(1 / (4 - tf.cast(x, tf.float32)), "infinite")

    tree = extract(Dataset.range(9).map(fails_once))
    disk = DiskCache(tmp_path)
    name = disk.filename(tree)
    kept = list(build(ir.IgnoreErrors(input=ir.Cache(input=tree, filename=name))))
    assert len(kept) == 8
    assert Path(f"{name}.index").exists()
    assert disk.again(name) != name


def test_of_a_number_that_is_not_known_the_end_must_have_been_seen(tmp_path):
    tree = extract(Dataset.range(9).filter(lambda x: x > 4))
    disk = DiskCache(tmp_path)
    name = disk.filename(tree)
    assert len(list(build(ir.Cache(input=tree, filename=name)))) == 4
    assert disk.again(name) != name
    disk.note_end([name])
    assert disk.again(name) == name


@pytest.mark.parametrize(
    "some",
    [lambda rows: rows.padded_batch(4), lambda rows: rows.take(8).map(lambda x: x + 1)],
    ids=["batches of rows", "a take"],
)
def test_where_another_element_takes_the_place_of_one_that_failed_the_end_must_have_been_seen(tmp_path, some):
    tree = extract(some(Dataset.range(12).map(lambda x: tf.debugging.check_numerics(1 / tf.cast(x, tf.float64), ""))))
    disk = DiskCache(tmp_path)
    name = disk.filename(tree)
    read = iter(build(ir.Cache(input=tree, filename=name)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(read)
    assert list(read)
    assert not disk.holds(name)


def test_what_a_process_left_that_was_killed_while_it_measured_is_removed_after_days(tmp_path):
    left = [tmp_path / f"{disk_cache.SAMPLES}x", tmp_path / f"{'a' * 12}.{'b' * 12}.new"]
    users = [tmp_path / "sample.x", tmp_path / f"{disk_cache.SAMPLES}mine", tmp_path / "config.new"]
    for folder in (left[0], *users[:2]):
        folder.mkdir()
    (left[0] / "data.index").write_text("")
    (users[1] / "photographs.txt").write_text("")
    for file in (left[1], users[2]):
        file.write_text("")
    DiskCache(tmp_path)
    assert all(path.exists() for path in (*left, *users))
    for path in (*left, *users):
        os.utime(path, (0, 0))
    DiskCache(tmp_path)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in users)


def test_the_number_of_elements_tells_where_it_was_known_and_can_be_read_where_not(tmp_path):
    disk = DiskCache(tmp_path)
    some = extract(Dataset.range(1999).filter(lambda x: x >= 0))
    known, unknown = disk.filename(numbers()), disk.filename(some)
    assert (disk.counts_tell(known), disk.counts_tell(unknown)) == (True, False)
    assert not disk.is_written(unknown)
    assert disk.number_written(unknown) is None
    _ = list(build(ir.Cache(input=some, filename=unknown)))
    assert disk.is_written(unknown)
    assert disk.number_written(unknown) == 1999


@pytest.mark.parametrize(
    "tree",
    [
        lambda: extract(Dataset.range(0)),
        lambda: extract(Dataset.range(9).filter(lambda x: x > 4)),
        lambda: extract(Dataset.range(3).map(lambda x: tf.ragged.range([x, 2]))),
        lambda: extract(Dataset.range(3).map(lambda x: tuple(tf.strings.as_string(x + i) for i in range(12)))),
    ],
    ids=["none", "of unknown number", "ragged", "of many tensors"],
)
def test_elements_of_any_kind_are_kept(tmp_path, tree):
    disk = DiskCache(tmp_path)
    name = disk.filename(tree())
    first = [str(element) for element in cached(tree(), name)]
    disk.note_end([name])
    assert disk.again(name) == name
    assert [str(element) for element in cached(tree(), name)] == first == [str(each) for each in build(tree())]


def test_other_elements_have_another_name(tmp_path):
    name = written(tmp_path)
    other = DiskCache(tmp_path).filename(numbers(factor=4))
    assert Path(other).parents[1] != Path(name).parents[1]
    assert DiskCache(tmp_path).filename(numbers()) == name


@pytest.mark.parametrize("harm", ["index", "data", "mark", "lock"])
def test_what_was_harmed_later_is_not_read(tmp_path, harm):
    name = written(tmp_path)
    assert DiskCache(tmp_path).filename(numbers()) == name
    assert marked(name)
    match harm:
        case "index":
            os.truncate(f"{name}.index", 50)
        case "data":
            os.truncate(f"{name}.data-00000-of-00001", 50)
        case "mark":
            (Path(name).parent / "complete").write_text("{")
            os.truncate(f"{name}.index", 50)
        case "lock":
            Path(f"{name}_0.lockfile").write_text("")
    assert DiskCache(tmp_path).filename(numbers()) != name


def test_an_index_that_cannot_be_read_is_not_trusted(tmp_path):
    name = written(tmp_path)
    os.truncate(f"{name}.index", 50)
    assert DiskCache(tmp_path).filename(numbers()) != name


def test_what_an_iterator_leaves_whose_state_was_saved_disturbs_no_other(tmp_path):
    disk = DiskCache(tmp_path)
    tree = numbers(5000)
    name = disk.filename(tree)
    iterator = iter(cached(tree, name))
    next(iterator)
    tf.raw_ops.SerializeIterator(resource_handle=iterator._iterator_resource, external_state_policy=1)
    next(iterator)
    del iterator
    gc.collect()
    # TensorFlow deletes the last part only: under this name, the next iterator would raise.
    assert Path(f"{name}_0.lockfile").exists()
    other = disk.again(name)
    assert first_numbers(cached(tree, other)) == expected(5000)
    assert disk.filename(tree) == other


def moved_elsewhere(name, monkeypatch):
    """Take an attempt for one of another machine, or of this one before it was started again."""
    for module in (attempts_module, disk_cache, writers):
        monkeypatch.setattr(module, "here", lambda: "e" * 12)
    monkeypatch.setattr(writers, "_writers", {})
    return name


def test_another_machine_reads_only_what_is_marked(tmp_path, monkeypatch):
    unmarked, mark = written(tmp_path / "a"), written(tmp_path / "b")
    assert DiskCache(tmp_path / "b").again(mark) == mark
    assert marked(mark)
    moved_elsewhere(mark, monkeypatch)
    assert DiskCache(tmp_path / "a").filename(numbers()) != unmarked
    assert DiskCache(tmp_path / "b").filename(numbers()) == mark


def test_what_another_machine_left_incomplete_is_removed_after_days(tmp_path, monkeypatch):
    left = Path(DiskCache(tmp_path).filename(numbers())).parent
    moved_elsewhere(left, monkeypatch)
    DiskCache(tmp_path)
    assert left.exists()
    os.utime(left, (0, time.time() - 8 * 24 * 3600))
    DiskCache(tmp_path)
    assert not left.exists()


@pytest.mark.parametrize("ended", [False, True])
def test_of_a_process_that_is_gone_what_nobody_can_ever_read_is_removed(ended, tmp_path, monkeypatch):
    tree = extract(Dataset.range(9).filter(lambda x: x > 4))
    disk = DiskCache(tmp_path)
    name = disk.filename(tree)
    _ = list(build(ir.Cache(input=tree, filename=name)))
    if ended:
        disk.note_end([name])
    monkeypatch.setattr(disk_cache, "writer_lives", lambda _: False)
    DiskCache(tmp_path)
    assert Path(name).parent.exists() == ended


def test_what_this_process_writes_is_left_alone(tmp_path):
    left = Path(DiskCache(tmp_path).filename(numbers())).parent
    DiskCache(tmp_path)
    assert left.exists()


def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/autopipe"):
        with pytest.raises(ArgumentError, match=r"must be one that can be written and locked, but .* is not"):
            DiskCache(folder)


def test_a_folder_that_somebody_else_writes_to_is_a_reason_not_to_keep_elements_there(tmp_path, monkeypatch):
    def refuses(*_, **__):
        raise PermissionError("not yours")

    disk = DiskCache(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refuses)
    with pytest.raises(MeasurementError, match="the folder cannot be written to .not yours."):
        SampleMeasurements(disk=disk).keep_on_disk(numbers())


def test_there_is_no_name_for_what_is_not_known_or_too_much(tmp_path):
    disk = DiskCache(tmp_path)
    for dataset in (Dataset.range(9).shuffle(3), Dataset.range(disk_cache.MOST_ELEMENTS + 1)):
        with pytest.raises(UnknownContentError):
            disk.filename(extract(dataset))
    assert attempts(tmp_path) == []


def test_there_is_no_name_for_more_than_a_file_holds_where_only_a_count_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "MOST_ELEMENTS", 3)
    some = extract(Dataset.range(9).filter(lambda x: x > 4))
    with pytest.raises(MeasurementError, match="a file cache holds 3 elements, and there may be 9"):
        SampleMeasurements(disk=DiskCache(tmp_path)).keep_on_disk(some)
    assert attempts(tmp_path) == []


@pytest.mark.parametrize("name", ["run[1]", "what?", "*", "a\\b", os.fsdecode(b"x\xff")])
def test_a_path_that_tensorflow_takes_for_something_else_is_refused(name, tmp_path):
    with pytest.raises(ArgumentError, match=r"The path of a disk cache must .* Name another folder\."):
        DiskCache(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_others_keep_in_the_folder_is_left_alone_however_old(tmp_path):
    key, attempt = "a" * 32 + ".9", f"{'b' * 12}.{'c' * 12}.{'d' * 8}"
    ours = tmp_path / key / attempt / "data_0.data"
    theirs = ["mnist/3.0.1/mnist.tfrecord", "poetry.lock", "a.b.lock", f"{key}/a.b.c/data", f"notes/{attempt}/data"]
    for path in (ours, *(tmp_path / each for each in theirs)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    long_ago = (0, time.time() - 8 * 24 * 3600)
    for path in tmp_path.rglob("*"):
        os.utime(path, long_ago)
    DiskCache(tmp_path)
    assert not ours.exists()
    assert all((tmp_path / each).exists() for each in theirs)


def test_a_link_to_a_folder_elsewhere_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere" / f"{'b' * 12}.{'c' * 12}.{'d' * 8}"
    elsewhere.mkdir(parents=True)
    os.utime(elsewhere, (0, 0))
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / ("a" * 32 + ".9")).symlink_to(elsewhere.parent)
    DiskCache(folder)
    assert elsewhere.exists()


def test_the_space_that_is_left_is_told(tmp_path):
    assert DiskCache(tmp_path).free > 0


def test_what_is_whole_or_has_room_to_grow_is_not_stopped(tmp_path):
    disk = DiskCache(tmp_path)
    name = disk.filename(numbers())
    assert disk.what_stops(name) is None
    part = Path(f"{name}_0.data-00000-of-00001.tempstate1")
    part.write_bytes(b"a part of the elements")
    assert disk.what_stops(name) is None
    assert os.listdir(part.parent) == [part.name]
    part.unlink()
    assert first_numbers(cached(numbers(), name)) == expected()
    disk.remove(name)
    assert disk.what_stops(name) is None


@pytest.mark.parametrize(("number", "stops"), [(errno.EDQUOT, True), (errno.EOPNOTSUPP, False)])
def test_a_quota_stops_what_is_written_and_a_disk_that_sets_no_room_aside_does_not(
    number, stops, tmp_path, monkeypatch
):
    def refuses(*_):
        raise OSError(number, "no room")

    disk = DiskCache(tmp_path)
    name = disk.filename(numbers())
    Path(f"{name}_0.data-00000-of-00001.tempstate1").write_bytes(b"a part of the elements")
    monkeypatch.setattr(os, "posix_fallocate", refuses)
    assert (disk.what_stops(name) is not None) == stops
