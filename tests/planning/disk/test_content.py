"""A key says which elements a pipeline gives: equal in another process, another for any change, none when in doubt."""

import os
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from programs import run_program

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.disk import files_read
from autopipe.planning.disk.content import UnknownContentError, content_key

Dataset = tf.data.Dataset


@autopipe.stateless
def declared(value):
    return value


def key(dataset):
    return content_key(extract(dataset))


def read(name, factor=1):
    return tf.strings.length(tf.io.read_file(name)) * factor


def whole_file_by_an_older_reader(name):
    reader = tf.raw_ops.FixedLengthRecordDataset(
        filenames=name, header_bytes=0, record_bytes=7, footer_bytes=0, buffer_size=7
    )
    return tf.raw_ops.DatasetToSingleElement(dataset=reader, output_types=[tf.string], output_shapes=[[]])


def table(values=(1, 2)):
    initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant(values, tf.int64))
    return tf.lookup.StaticHashTable(initializer, default_value=-1)


def records(name):
    return tf.data.TFRecordDataset(name, num_parallel_reads=2).map(lambda record: tf.io.decode_raw(record, tf.uint8))


def element_of(array):
    captured = tf.constant(array)
    return lambda place: captured[place]


def of_call(function):
    """Return a function that calls another one, which stays a call."""
    called = tf.function(function, jit_compile=True)
    return lambda x: called(x, x + 1)


def minus(a, b):
    return a - b


def minus_the_other_way(b, a):
    return a - b


def both(a, b):
    return a * 2, b * 3


def both_the_other_way(a, b):
    doubled = a * 2
    return b * 3, doubled


def from_files(folder):
    return Dataset.list_files(f"{folder}/*", shuffle=False)


def everything(folder):
    names = from_files(folder)
    captured, found = tf.constant(np.arange(6.0).reshape(2, 3)), table()
    branches = Dataset.range(4).map(lambda x: tf.cond(x > 1, lambda: x, lambda: x + 1)).batch(2).map(lambda x: x)
    words = Dataset.from_tensor_slices(["a", "b", "c"]).map(lambda word: found.lookup(word))
    lines = names.interleave(lambda name: tf.data.TextLineDataset(name).skip(1), cycle_length=2)
    rows = Dataset.range(2).map(lambda i: captured[i])
    return Dataset.zip({"b": branches, "a": (names.map(read), words), "l": lines, "r": rows}).prefetch(2)


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"head\n{name}\n")
    return tmp_path


def test_another_process_finds_the_same_key(folder):
    there, found = run_program(Path(__file__), folder).split()
    assert there != str(hash("text"))
    assert found == key(everything(folder))


def test_what_does_not_change_the_elements_does_not_change_the_key(folder):
    plain = from_files(folder).map(read).batch(2)
    tuned = from_files(folder).prefetch(3).map(read, num_parallel_calls=4, name="m").cache().batch(2, name="b")
    assert key(plain) == key(tuned) == key(tuned.prefetch(2).with_options(tf.data.Options()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: Dataset.range(9), lambda: Dataset.range(8)),
        (lambda: Dataset.range(9), lambda: Dataset.range(9, output_type=tf.int32)),
        (lambda: Dataset.range(9).batch(2), lambda: Dataset.range(9).batch(2, drop_remainder=True)),
        (lambda: Dataset.range(9).take(2).skip(1), lambda: Dataset.range(9).skip(1).take(2)),
        (lambda: Dataset.range(9).map(lambda x: x * 2), lambda: Dataset.range(9).map(lambda x: x * 3)),
        (lambda: Dataset.range(9).map(lambda x: (x, -x)), lambda: Dataset.range(9).map(lambda x: (-x, x))),
        (
            lambda: Dataset.from_tensor_slices(np.arange(9)),
            lambda: Dataset.from_tensor_slices(np.arange(9)[::-1].copy()),
        ),
        (lambda: Dataset.from_tensors(["ab", "c"]), lambda: Dataset.from_tensors(["a", "bc"])),
        (
            lambda: Dataset.range(2).map(element_of(np.zeros(99))),
            lambda: Dataset.range(2).map(element_of(np.ones(99))),
        ),
        (
            lambda: Dataset.from_tensors("a").map(table().lookup),
            lambda: Dataset.from_tensors("a").map(table((2, 1)).lookup),
        ),
        (lambda: Dataset.range(9).map(of_call(minus)), lambda: Dataset.range(9).map(of_call(minus_the_other_way))),
        (lambda: Dataset.range(9).map(of_call(both)), lambda: Dataset.range(9).map(of_call(both_the_other_way))),
    ],
)
def test_other_elements_have_another_key(one, other):
    assert key(one()) == key(one())
    assert key(one()) != key(other())


READERS = {
    "a reader": lambda folder: tf.data.TextLineDataset(from_files(folder)),
    "a map": lambda folder: from_files(folder).map(read),
    "a map that makes the names": lambda folder: Dataset.from_tensor_slices(["a", "b", "c"]).map(
        lambda name: read(tf.strings.join([str(folder), "/", name]))
    ),
    "names in a file": lambda folder: tf.data.TextLineDataset(index_of(folder)).map(read),
    "a filter": lambda folder: from_files(folder).filter(lambda name: read(name) > 0),
    "an interleave": lambda folder: from_files(folder).interleave(records),
    "a flat map": lambda folder: from_files(folder).flat_map(lambda name: tf.data.FixedLengthRecordDataset(name, 1)),
    "the op of an older reader": lambda folder: from_files(folder).map(whole_file_by_an_older_reader),
}


def index_of(folder):
    index = folder / "index.txt"
    if not index.exists():
        index.write_text("".join(f"{path}\n" for path in sorted(folder.iterdir())))
    return str(index)


def replaced(path, text):
    """Replace a file by one that looks alike but for the time of its last change, which cannot be set."""
    times = path.stat()
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_any_change_of_a_file_that_is_read_changes_the_key(folder, reader):
    first = key(reader(folder))
    assert key(reader(folder)) == first
    replaced(folder / "b", "head\nx\n")
    second = key(reader(folder))
    os.utime(folder / "b", ns=(0, 0))
    third = key(reader(folder))
    (folder / "b").write_text("longer than before")
    assert len({first, second, third, key(reader(folder))}) == 4


@pytest.mark.parametrize(
    "reads",
    [lambda names: names.interleave(tf.data.TextLineDataset, cycle_length=2), lambda names: names.map(read)],
    ids=["lines", "whole files"],
)
def test_to_list_names_writes_no_file_of_a_cache_of_the_author(folder, reads, tmp_path_factory):
    kept = tmp_path_factory.mktemp("kept")
    names = extract(reads(from_files(folder).cache(str(kept / "names"))))
    assert len(list(files_read.file_states(names))) == len(os.listdir(folder))
    assert not os.listdir(kept)


def test_a_new_file_changes_the_key(folder):
    first = key(from_files(folder).map(read))
    (folder / "d").write_text("more")
    assert key(from_files(folder).map(read)) != first


def of_a_variable():
    variable = tf.Variable(1, dtype=tf.int64)
    return lambda x: x + variable


def of_a_mutable_table():
    return tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1).lookup


def of_another_dataset():
    other = Dataset.range(3)
    return lambda x: other


def remapped(number):
    files = {"new_vocab_file": "/nowhere", "old_vocab_file": "/tmp"}
    return tf.raw_ops.GenerateVocabRemapping(**files, new_vocab_offset=0, num_new_vocab=1).remapping


def free_order():
    options = tf.data.Options()
    options.deterministic = False
    return Dataset.range(9).map(lambda x: x + 1).with_options(options)


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (lambda: Dataset.from_generator(lambda: range(3), tf.int64), "may give other elements"),
        (lambda: Dataset.random(seed=1).take(3), "may give other elements"),
        (lambda: Dataset.range(9).shuffle(3), "its own order"),
        (lambda: Dataset.range(9).shuffle(3, seed=1, reshuffle_each_iteration=False), "its own order"),
        (lambda: Dataset.range(9).map(lambda x: tf.random.uniform(())), "draws random numbers"),
        (lambda: Dataset.range(9).map(lambda x: tf.random.uniform((), seed=1)), "author's seed"),
        (lambda: Dataset.range(9).map(lambda x: tf.py_function(lambda: 1, [], tf.int64)), "runs Python code"),
        (lambda: Dataset.range(9).map(lambda x: tf.numpy_function(declared, [x], tf.int64)), "declared stateless"),
        (lambda: Dataset.range(9).map(of_a_variable()), "reads a variable"),
        (lambda: Dataset.from_tensors("a").map(of_a_mutable_table()), "may be filled"),
        (
            lambda: Dataset.from_tensors(np.zeros((8, 8, 3))).map(keras.layers.RandomFlip(seed=1)),
            "draws from a generator",
        ),
        (lambda: Dataset.range(9).map(lambda x: tf.timestamp()), "keeps state"),
        (lambda: Dataset.range(9).map(lambda x: x, num_parallel_calls=2, deterministic=False), "frees the order"),
        (free_order, "frees the order"),
        (lambda: Dataset.range(9).flat_map(lambda x: Dataset.range(x).shuffle(2)), "Shuffle"),
        (lambda: Dataset.range(9).flat_map(lambda x: Dataset.range(x).cache("/tmp/c")), "Cache"),
        (lambda: Dataset.range(9).flat_map(lambda x: Dataset.range(3).with_options(tf.data.Options())), "Options"),
        (lambda: Dataset.range(9).flat_map(of_another_dataset()), "keeps state .a captured dataset."),
        (lambda: Dataset.range(9).ignore_errors(), "may give other elements"),
        (lambda: Dataset.range(9).cache("/tmp/c"), "may already hold"),
        (lambda: Dataset.range(9).repeat(), "never ends"),
        (lambda: Dataset.range(9).window(3), "Dataset"),
        (lambda: Dataset.from_tensors("gs://bucket/file").map(read), "cannot be looked at"),
        (lambda: tf.data.TextLineDataset(["/nowhere"]), "cannot be looked at"),
        (lambda: tf.data.TextLineDataset(["/"]), "is not a file"),
        (lambda: tf.data.TextLineDataset(["/nowhere"]).map(read), "could not be listed|cannot be looked at"),
        (lambda: Dataset.from_tensors(["a"]).map(lambda n: tf.map_fn(read, n, fn_output_signature=tf.int32)), "where"),
        (lambda: Dataset.range(3).map(remapped), "where autopipe cannot look"),
        (lambda: Dataset.from_tensors("/tmp/*").map(tf.io.matching_files), "where autopipe cannot look"),
        (lambda: Dataset.from_tensors("a").flat_map(lambda n: Dataset.range(2).map(lambda i: read(n))), "where"),
    ],
)
def test_there_is_no_key_where_elements_could_differ(dataset, why):
    with pytest.raises(UnknownContentError, match=why):
        key(dataset())


def test_there_is_no_key_of_an_op_whose_version_it_does_not_hold(monkeypatch):
    """As those of another library, which may be registered as stateless."""
    squared = Dataset.range(9).map(lambda x: x * x)
    assert key(squared)
    monkeypatch.delattr(tf.raw_ops, "Mul")
    with pytest.raises(UnknownContentError, match="calls Mul, which is not an op of TensorFlow"):
        key(squared)


def test_a_key_is_the_same_however_numpy_prints_and_another_for_another_value():
    def padded(value):
        return Dataset.range(4).map(tf.range).padded_batch(2, padding_values=tf.constant(value, tf.int64))

    first = key(padded(3))
    assert key(padded(4)) != first
    with np.printoptions(legacy="1.13"):
        assert key(padded(3)) == first


def test_too_many_files_are_not_looked_at(folder, monkeypatch):
    monkeypatch.setattr(files_read, "_MOST_FILES", 2)
    with pytest.raises(UnknownContentError, match="more than 2 files"):
        key(from_files(folder).map(read))


if __name__ == "__main__":
    Dataset.range(3).map(lambda x: x + 1)  # so that names that TensorFlow numbers differ
    print(hash("text"), key(everything(Path(sys.argv[1]))))


def test_zeros_at_the_end_of_a_string_count():
    assert key(tf.data.Dataset.from_tensors(b"a\0")) != key(tf.data.Dataset.from_tensors(b"a"))


@pytest.mark.parametrize(("source", "holds"), [("local://", True), ("/messages.pb", False)])
def test_a_description_of_messages_in_a_file_may_change(source, holds):
    def decoded(text):
        return tf.raw_ops.DecodeProtoV2(
            bytes=text,
            message_type="tensorflow.Example",
            field_names=[],
            output_types=[],
            descriptor_source=source,
        ).sizes

    dataset = tf.data.Dataset.from_tensors(b"").map(decoded)
    if holds:
        assert key(dataset)
    else:
        with pytest.raises(UnknownContentError, match="reads a descriptor from a file"):
            key(dataset)
