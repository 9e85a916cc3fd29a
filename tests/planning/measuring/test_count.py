"""How many elements there are is known without reading everything, or said not to be."""

import gzip
import os
import time
import weakref

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import count
from autopipe.planning.measuring.count import most_elements
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset


def in_groups(dataset, size):
    return dataset.group_by_window(lambda x: x % 2, lambda _, window: window.batch(3), window_size=2 * size)


@pytest.fixture
def files(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("head\n" + "a line of text\n" * (100 + 7 * number))
    return sorted(str(path) for path in tmp_path.iterdir())


def lines(file):
    return tf.data.TextLineDataset(file).skip(1)


@pytest.mark.parametrize(
    ("dataset", "number"),
    [
        (Dataset.range(9), 9),
        (Dataset.range(9).filter(lambda x: x > 3).map(lambda x: x), 9),
        (Dataset.range(9).filter(lambda x: x > 3).batch(2), 5),
        (Dataset.zip((Dataset.range(9).filter(lambda x: x > 3), Dataset.range(12).filter(lambda x: x > 3))), 9),
        (Dataset.zip((Dataset.range(9).filter(lambda x: x > 3), Dataset.range(12).repeat())), 9),
        (Dataset.range(9).filter(lambda x: x > 3).ignore_errors().enumerate().skip(0).shard(1, 0), 9),
        (Dataset.range(9).filter(lambda x: x > 3).shuffle(9, reshuffle_each_iteration=False).map(lambda x: x), 9),
        (Dataset.range(5).flat_map(Dataset.range), 10),
        (Dataset.range(5).interleave(Dataset.range, cycle_length=2).batch(3), 4),
        (in_groups(Dataset.range(2000), 3), 668),
        (in_groups(Dataset.range(0), 3), 0),
        (in_groups(Dataset.range(600).repeat(2), 3), 400),
    ],
)
def test_a_number_that_follows_from_the_stages_is_exact(dataset, number, monkeypatch):
    for name in ("_COUNTING_SECONDS", "_GROUPING_SECONDS"):
        monkeypatch.setattr(count, name, 60.0)
    assert most_elements(extract(dataset)) == number


def test_groups_are_counted_of_as_many_elements_as_time_allows_of_several_places(monkeypatch):
    monkeypatch.setattr(count, "_GROUPING_SECONDS", 2.0)
    sizes = Dataset.range(40_000).map(lambda x: tf.strings.length(tf.strings.as_string(x)))
    longer = sizes.bucket_by_sequence_length(lambda size: size, [5], [8, 2])
    # 10,000 of less than 5 digits, and 30,000 of 5.
    assert 0.5 * 16_250 < most_elements(extract(longer)) < 1.5 * 16_250
    monkeypatch.setattr(count, "_GROUPING_SECONDS", 0.0)
    with pytest.raises(MeasurementError, match="not even 256 elements can be put into groups"):
        most_elements(extract(in_groups(Dataset.range(2001), 3)))


def test_of_one_element_few_are_waited_for(monkeypatch):
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.0)
    assert most_elements(extract(Dataset.range(50).flat_map(three_of_each))) == 150


def test_groups_of_slow_elements_are_not_waited_for():
    asked = []

    @autopipe.stateless
    def slow(x):
        time.sleep(0.02)
        asked.append(x)
        return x

    slowly = Dataset.range(600).map(lambda x: tf.ensure_shape(tf.numpy_function(slow, [x], tf.int64), []))
    with pytest.raises(MeasurementError, match="not even 256 elements"):
        most_elements(extract(in_groups(slowly, 16)))
    assert len(asked) < 150


def test_elements_of_files_are_counted_in_whole_files(files):
    true = sum(1 for _ in tf.data.TextLineDataset(files))
    assert true <= most_elements(extract(tf.data.TextLineDataset(files))) <= 1.05 * true
    names = Dataset.from_tensor_slices(files)
    for dataset in (names.flat_map(lines), names.interleave(lines, cycle_length=2)):
        assert true - 12 <= most_elements(extract(dataset)) <= 1.05 * true


def three_of_each(x):
    return Dataset.from_tensors(x).repeat(3)


def test_of_many_small_pieces_only_as_many_are_counted_as_a_second_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.2)
    for number in range(400):
        (tmp_path / str(number)).write_text("a line\n" * (1 + number % 3))
    names = [str(tmp_path / str(number)) for number in range(400)]
    for dataset, true in ((Dataset.range(4000).flat_map(three_of_each), 12_000), (tf.data.TextLineDataset(names), 799)):
        began = time.perf_counter()
        assert true <= most_elements(extract(dataset)) <= 2 * true
        assert time.perf_counter() - began < 5


def test_the_sizes_of_files_that_there_is_no_time_to_ask_for_are_those_of_others(files, monkeypatch):
    true = sum(1 for _ in tf.data.TextLineDataset(files))
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.0)
    asked = []
    monkeypatch.setattr(tf.io.gfile, "stat", lambda name, stat=tf.io.gfile.stat: asked.append(name) or stat(name))
    assert 0.8 * true < most_elements(extract(tf.data.TextLineDataset(files))) < 1.3 * true
    assert len(asked) == 1


def test_compressed_files_count_by_their_compressed_bytes(tmp_path):
    for number in range(4):
        with tf.io.TFRecordWriter(str(tmp_path / f"{number}.gz"), "GZIP") as writer:
            for record in range(50 * (number + 1)):
                writer.write(f"record {record}".encode() * 20)
    found = sorted(str(path) for path in tmp_path.iterdir())
    assert 500 <= most_elements(extract(tf.data.TFRecordDataset(found, "GZIP"))) <= 600


@pytest.mark.parametrize("kind", ["text", "records"])
def test_elements_of_a_file_that_takes_too_long_are_told_by_their_length(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.0)
    lines = [b"word " * (number % 7 + 1) for number in range(3000)]
    if kind == "text":
        (tmp_path / "file").write_bytes(b"".join(line + b"\n" for line in lines))
        reader = tf.data.TextLineDataset(str(tmp_path / "file"))
    else:
        with tf.io.TFRecordWriter(str(tmp_path / "file")) as writer:
            for line in lines:
                writer.write(line)
        reader = tf.data.TFRecordDataset(str(tmp_path / "file"))
    assert 3000 <= most_elements(extract(reader)) <= 3300


def slow_lines(file):
    """Work on lines in a way that no rule can take out of the function, 5 ms each."""
    busy = tf.data.TextLineDataset(file).map(lambda line: (line, tf.reduce_sum(tf.linalg.svd(tf.ones((120, 120)))[0])))
    return busy.window(2).flat_map(lambda line, _: line.batch(2))


def test_one_file_may_take_longer_to_count_where_its_function_works(tmp_path, monkeypatch):
    for name, count_of in (("a", 40), ("b", 44)):
        (tmp_path / name).write_text("a line\n" * count_of)
    names = Dataset.from_tensor_slices([str(tmp_path / name) for name in "ab"])
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.01)
    assert 42 <= most_elements(extract(names.flat_map(slow_lines))) <= 45
    monkeypatch.setattr(count, "_ONE_FILE_SECONDS", 0.01)
    with pytest.raises(MeasurementError, match="too large to be counted"):
        most_elements(extract(names.interleave(slow_lines)))


def csv(file, **arguments):
    return tf.data.experimental.CsvDataset(file, [tf.int32, tf.string], **arguments)


def test_rows_that_take_too_long_are_no_more_than_there_are_lines(tmp_path, monkeypatch):
    for number in range(3):
        text = "".join(f'{row},"two\nlines"\n' for row in range(100))
        (tmp_path / f"{number}.csv").write_text(text)
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(text.encode()))
    names, archives = (Dataset.list_files(str(tmp_path / f"*.{kind}")) for kind in ("csv", "gz"))
    rows = extract(names.interleave(csv))
    assert most_elements(rows) == 303
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 0.0)
    compressed = extract(archives.flat_map(lambda file: csv(file, compression_type="GZIP")))
    twice = extract(names.flat_map(lambda file: csv(file).repeat(2)))
    of_one_reader = extract(csv([str(tmp_path / f"{number}.gz") for number in range(3)], compression_type="GZIP"))
    for other in (compressed, twice, of_one_reader):
        with pytest.raises(MeasurementError, match="too large to be counted"):
            most_elements(other)
    ticks = iter(range(100))
    monkeypatch.setattr(count.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 6.0)
    assert 600 <= most_elements(extract(names.interleave(csv, cycle_length=2))) <= 610
    assert 600 <= most_elements(extract(csv([str(tmp_path / f"{number}.csv") for number in range(3)]))) <= 610


def test_names_of_files_may_be_no_utf_8(tmp_path, monkeypatch):
    names = [os.path.join(os.fsencode(tmp_path), b"caf\xe9 %d" % number) for number in range(3)]
    for name in names:
        with open(name, "w") as file:
            file.write("".join(f"{row},a line\n" for row in range(100)))
    assert most_elements(extract(csv(names))) == 303
    # TensorFlow cannot even say that there is none of such a name.
    with pytest.raises(MeasurementError, match="the names of its files could not be listed"):
        most_elements(extract(csv([name + b" gone" for name in names])))
    ticks = iter(range(100))
    monkeypatch.setattr(count.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(count, "_COUNTING_SECONDS", 6.0)
    assert 300 <= most_elements(extract(csv(names))) <= 310


@pytest.mark.parametrize("make", [lambda x: (x, x), lambda x: (x, tf.fill([x], x))])
def test_elements_of_any_type_are_counted(make):
    assert most_elements(extract(Dataset.range(3).flat_map(lambda x: Dataset.range(40).map(make)))) == 120


def test_what_fails_while_it_is_counted_has_no_number():
    failing = Dataset.range(20).flat_map(
        lambda x: Dataset.from_tensors(tf.debugging.check_numerics(float("nan"), "no"))
    )
    with pytest.raises(MeasurementError, match="an element raised while they were counted: .*no"):
        most_elements(extract(failing))


def test_where_an_element_fails_of_which_others_are_made_there_is_no_number():
    def checked(x):
        tf.debugging.assert_none_equal(x, tf.constant(3, tf.int64))
        return x

    made = Dataset.range(9).map(checked).interleave(lambda x: Dataset.from_tensors(x).repeat(2), 1, 1)
    for tree in [extract(made), extract(made.map(lambda x: x + 1))]:
        with pytest.raises(MeasurementError, match="an element raised while they were counted: assertion failed"):
            most_elements(tree)


def test_a_number_that_is_not_known_holds_nothing_of_who_asked_for_it():
    failing = extract(
        Dataset.range(20).flat_map(lambda x: Dataset.from_tensors(tf.debugging.check_numerics(x / 0, "")))
    )

    def ask():
        asking = {1, 2, 3}
        with pytest.raises(MeasurementError):
            most_elements(failing)
        return weakref.ref(asking)

    ask()
    assert ask()() is None


def test_elements_of_a_generator_are_counted_where_its_author_declares_that_it_keeps_no_state():
    spec = tf.TensorSpec((), tf.int64)
    alone = Dataset.from_generator(autopipe.stateless(lambda: iter(range(7))), output_signature=spec)
    assert most_elements(extract(alone)) == 7
    with pytest.raises(MeasurementError):
        most_elements(extract(Dataset.from_generator(lambda: iter(range(7)), output_signature=spec)))


def test_what_takes_too_long_to_be_counted_is_counted_of_a_part():
    @autopipe.stateless
    def slow(number):
        for value in range(51 - number % 2):
            time.sleep(0.0005)
            yield value

    def of(number):
        return Dataset.from_generator(slow, output_signature=tf.TensorSpec((), tf.int64), args=(number,))

    assert 5050 <= most_elements(extract(Dataset.range(100).flat_map(of))) <= 5150


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).repeat(),
        Dataset.range(2).flat_map(lambda x: Dataset.range(x + 1).repeat()),
        Dataset.range(3).flat_map(lambda x: Dataset.range(x + tf.random.uniform((), 0, 3, tf.int64))),
        tf.data.TextLineDataset(["/nowhere"]),
    ],
)
def test_a_number_that_is_not_known_is_said_so(dataset):
    with pytest.raises(MeasurementError):
        most_elements(extract(dataset))


def cached_names(files, file):
    return Dataset.from_tensor_slices(files).cache(file)


COUNTED = {
    "made of each": (lambda file, _: Dataset.range(5).cache(file).flat_map(Dataset.range), 60.0),
    "lines of files": (lambda file, files: tf.data.TextLineDataset(cached_names(files, file)), 60.0),
    "lines of files by their length": (lambda file, files: tf.data.TextLineDataset(cached_names(files, file)), 0.0),
    "lines of each file": (lambda file, files: cached_names(files, file).flat_map(lines), 60.0),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_to_count_elements_writes_no_file_of_a_cache_of_the_author(kind, files, tmp_path, monkeypatch):
    make, seconds = COUNTED[kind]
    monkeypatch.setattr(count, "_COUNTING_SECONDS", seconds)
    folder = tmp_path / "kept"
    folder.mkdir()
    dataset = make(str(folder / "cache"), files)
    assert most_elements(extract(dataset)) > 0
    assert not os.listdir(folder)


def heavy(x):
    y = tf.cast(x, tf.float32)
    for _ in range(20):
        y = tf.sin(y) + 1
    return y


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "read",
    [
        lambda dataset: autopipe.optimize(dataset, seconds=1),
        lambda dataset: autopipe.explain(dataset, seconds=0.2, measuring_seconds=1),
    ],
    ids=["optimize", "explain"],
)
def test_a_cache_that_its_author_writes_meanwhile_is_written_by_nobody_else(read, tmp_path):
    def few_of_each(x):
        return Dataset.range(tf.cast(x, tf.int64) % 3 + 1)

    kept = Dataset.range(300).map(heavy).cache(str(tmp_path / "cache"))
    dataset = kept.flat_map(few_of_each).map(heavy)
    iterator = iter(dataset)
    for _ in range(50):
        next(iterator)
    begun = sorted(os.listdir(tmp_path))
    assert begun
    read(dataset)
    assert sorted(os.listdir(tmp_path)) == begun
    for _ in iterator:
        pass
    assert sum(1 for _ in kept) == 300
