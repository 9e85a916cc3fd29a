"""When results may be kept by the numbers of elements: those must not shift where one fails in one epoch only."""

from contextlib import contextmanager

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from sides import apply, assert_refuses, assert_rewrites, with_all_rules

RULE = "cache_results"
Dataset = tf.data.Dataset


def parse(x):
    return tf.strings.to_number(x)


def test_numbers_that_would_shift_where_python_code_fails_in_one_epoch_only_are_left():
    """Of a batch that is not made one number goes, and there are two elements of it the next time."""
    failing = [False]

    @autopipe.stateless
    def fetch(x):
        if failing[0] and int(x) == 3:
            raise OSError("no answer")
        return x.numpy()

    def written():
        fetched = tf.data.Dataset.range(8).map(lambda x: tf.ensure_shape(tf.py_function(fetch, [x], tf.int64), []))
        rows = fetched.batch(2).unbatch().shuffle(8)
        return rows.map(lambda y: tf.strings.to_number(tf.strings.as_string(y * 10), tf.int64)).ignore_errors()

    for dataset in (written(), with_all_rules(written(), Keeps.SEQUENCE)):
        failing[0] = True
        assert sorted(map(int, dataset)) == [0, 10, 40, 50, 60, 70]
        failing[0] = False
        for _epoch in range(2):
            assert sorted(map(int, dataset)) == list(range(0, 80, 10))


def test_refuses_numbers_in_an_order_that_an_option_after_it_would_free(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text(f"{names}\n{names}\n")
    lines = tf.data.TextLineDataset(tf.data.TextLineDataset(str(names)), num_parallel_reads=tf.data.AUTOTUNE)
    parsed = lines.shuffle(9).take(2).map(lambda x: tf.strings.length(x) + 1)
    assert_refuses(RULE, parsed, "an option after it would free the order of text_files")


def test_refuses_numbers_in_an_order_that_such_an_option_would_free_inside_a_function():
    rows = Dataset.range(3).flat_map(lambda x: Dataset.range(x).map(tf.strings.as_string, num_parallel_calls=2))
    assert_refuses(RULE, rows.shuffle(9).take(2).map(parse), "an option after it would free the order of <lambda>")


def test_refuses_numbers_behind_what_leaves_out_a_file_that_cannot_be_read_once(tmp_path):
    (tmp_path / "a").write_text("1")
    read = Dataset.from_tensor_slices([f"{tmp_path}/a", f"{tmp_path}/b"]).map(tf.io.read_file).ignore_errors()
    done = apply(RULE, read.shuffle(9).take(1).map(parse))
    # What is read of a file is kept as it was read.
    assert [step.after for step in done.steps] == ["... | enumerate() | memoized_map(read_file, calls=AUTOTUNE)"]
    (refusal,) = done.refusals
    assert "a file that cannot be read in one epoch only would be left out for good" in refusal.reason


@contextmanager
def unreadable(path):
    away = path.rename(path.with_suffix(".away"))
    path.mkdir()
    yield
    path.rmdir()
    away.rename(path)


def files_of_records(folder):
    paths = [folder / name for name in ("a", "b")]
    for path in paths:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in range(20):
                writer.write(f"{path.name}{number}".encode())
    return paths


READERS = {
    "records of files": tf.data.TFRecordDataset,
    "lines of files": tf.data.TextLineDataset,
    "a reader for each file": lambda names: Dataset.from_tensor_slices(names).flat_map(tf.data.TFRecordDataset),
    "several in turn": lambda names: Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset),
}


@pytest.mark.parametrize("name", READERS)
def test_elements_of_several_files_are_numbered_in_each_of_them(tmp_path, name):
    names = [str(path) for path in files_of_records(tmp_path)]
    done = apply(RULE, READERS[name](names).shuffle(100).take(39).map(tf.strings.upper))
    assert one_line(done.after).startswith("tensor_slices | enumerate() | ")
    assert "enumerate" not in one_line(done.after).removeprefix("tensor_slices | enumerate()")


@pytest.mark.parametrize("name", [name for name in READERS if name != "lines of files"])
def test_a_file_that_cannot_be_read_in_one_epoch_only_shifts_no_numbers(tmp_path, name):
    paths = files_of_records(tmp_path)
    read = READERS[name](list(map(str, paths))).shuffle(100).take(39)
    dataset = build(apply(RULE, read.map(tf.strings.upper).ignore_errors()).after)
    with unreadable(paths[0]):
        assert {text[:1] for text in dataset.as_numpy_iterator()} == {b"B"}
    for _epoch in range(2):
        epoch = set(dataset.as_numpy_iterator())
        assert len(epoch) == 39
        assert epoch < {f"{path.name}{number}".upper().encode() for path in paths for number in range(20)}


def lines_of(name):
    return tf.ensure_shape(tf.strings.split(tf.io.read_file(name)), [None])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda names: names.map(tf.io.read_file).filter(lambda text: text != ""),
            "shift numbers, in filter(<lambda>)",
        ),
        (lambda names: names.map(lines_of).unbatch(), "shift numbers, in unbatch()"),
        (lambda names: names.map(tf.io.read_file).batch(2).map(lambda texts: texts[0]), "shift numbers, in batch(2)"),
        (lambda names: tf.data.TFRecordDataset(names, num_parallel_reads=2), "in tfrecord_files(reads=2)"),
        (lambda names: tf.data.TFRecordDataset(names).ignore_errors(), "left out for good, by ignore_errors()"),
    ],
    ids=["filter", "unbatch", "batch", "read at once", "errors ignored"],
)
def test_refuses_numbers_that_a_file_would_shift_that_cannot_be_read_once(make, reason):
    done = apply(RULE, make(Dataset.from_tensor_slices(["a", "b"])).shuffle(9).take(1).map(parse))
    assert any("a file that cannot be read in one epoch only would" in each.reason for each in done.refusals)
    assert any(reason in each.reason for each in done.refusals)
    assert "memoized_map(parse" not in one_line(done.after)


def test_of_one_file_that_cannot_be_read_nothing_is_left_to_shift():
    assert_rewrites(
        RULE,
        tf.data.TextLineDataset(__file__).shuffle(9, seed=2).take(5).map(lambda line: tf.strings.length(line) + 1),
        "tensor_slices | text_files() | enumerate() | shuffle(9, seed=2) | take(5) | "
        "memoized_map(<lambda>, calls=AUTOTUNE)",
    )


def shards(folder):
    for shard in "st":
        (folder / shard).mkdir()
        for name in "ab":
            with tf.io.TFRecordWriter(str(folder / shard / name)) as writer:
                for number in range(10):
                    writer.write(f"{shard}{name}{number}".encode())
    return Dataset.from_tensor_slices([str(folder / shard) for shard in "st"])


def both(shard):
    return tf.data.TFRecordDataset(tf.stack([shard + "/a", shard + "/b"]))


def one_after_the_other(shard):
    return tf.data.TFRecordDataset(shard + "/a").concatenate(tf.data.TFRecordDataset(shard + "/b"))


def nested(shard):
    return Dataset.from_tensor_slices(tf.stack([shard + "/a", shard + "/b"])).flat_map(tf.data.TFRecordDataset)


@pytest.mark.parametrize("opened", [both, one_after_the_other, nested])
def test_of_several_files_that_one_function_opens_one_that_cannot_be_read_once_shifts_no_numbers(tmp_path, opened):
    read = shards(tmp_path).flat_map(opened).shuffle(100).take(39).map(tf.strings.upper).ignore_errors()
    dataset = build(apply("cache_results", read).after)
    with unreadable(tmp_path / "s" / "a"):
        assert len(list(dataset)) == 30
    assert len(set(dataset.as_numpy_iterator())) == 39


def test_an_order_that_is_kept_shifts_no_numbers_where_a_file_cannot_be_read_once(tmp_path):
    paths = [tmp_path / str(number) for number in range(30)]
    for path in paths:
        path.write_text(path.name)
    read = Dataset.from_tensor_slices(list(map(str, paths))).map(tf.io.read_file)
    kept = read.shuffle(100, seed=3, reshuffle_each_iteration=False).shuffle(50).take(29).map(tf.strings.upper)
    dataset = build(apply(RULE, kept.ignore_errors()).after)
    with unreadable(paths[1]):
        assert len(list(dataset)) == 29
    for _epoch in range(4):
        assert len(set(dataset.as_numpy_iterator())) == 29
