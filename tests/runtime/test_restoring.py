"""What counts as restored right is: an iterator that goes on from the state of another gives what that would have."""

import sqlite3
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.runtime.disposal import resource_of
from autopipe.runtime.repoint import state_of
from autopipe.runtime.restoring import restored_wrongly

Dataset = tf.data.Dataset
experimental = tf.data.experimental

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Files(NamedTuple):
    lines: list
    records: list
    saved: str
    table: str


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    lines, records = ([str(folder / f"{number}.{kind}") for number in range(3)] for kind in ("csv", "records"))
    for number in range(3):
        with open(lines[number], "w") as file:
            file.writelines(f"{number},{each}\n" for each in range(3 * number))
        with tf.io.TFRecordWriter(records[number]) as writer:
            for each in range(3 * number):
                writer.write(f"{number}-{each}".encode())
    Dataset.range(7).save(str(folder / "saved"))
    with sqlite3.connect(folder / "table") as table:
        table.execute("create table numbers (number integer)")
        table.executemany("insert into numbers values (?)", [(each,) for each in range(9)])
    return Files(lines, records, str(folder / "saved"), str(folder / "table"))


def sums(total, number):
    return total + number, total + number


def zero(*_):
    return tf.constant(0, tf.int64)


def examples():
    features = ({"a": tf.train.Feature(int64_list=tf.train.Int64List(value=[each]))} for each in range(12))
    return [tf.train.Example(features=tf.train.Features(feature=each)).SerializeToString() for each in features]


def batched_in_groups(groups):
    return groups.group_by_window(lambda x: x % 3, lambda _key, group: group.batch(2), 4)


NOT_READ = {
    "assert_cardinality": lambda _: Dataset.range(9).apply(experimental.assert_cardinality(9)),
    "csv": lambda files: experimental.CsvDataset(files.lines, [0, 0]),
    "dense_to_sparse": lambda _: (
        Dataset.range(12).map(lambda x: tf.ones([x % 5])).apply(experimental.dense_to_sparse_batch(2, [8]))
    ),
    "group_by_reducer": lambda _: Dataset.range(12).apply(
        experimental.group_by_reducer(lambda x: x % 5, experimental.Reducer(zero, lambda s, x: s + x, lambda s: s))
    ),
    "list": lambda _: experimental.from_list(list(range(9))),
    "load": lambda files: Dataset.load(files.saved),
    "map_and_batch": lambda _: Dataset.range(12).apply(experimental.map_and_batch(lambda x: x * 2, 4, 2)),
    # With blocks longer than the datasets TensorFlow has another order in one run of a hundred.
    "parallel_interleave": lambda _: Dataset.range(5).apply(
        experimental.parallel_interleave(lambda x: Dataset.range(x, x + 3), cycle_length=2)
    ),
    "parse_example": lambda _: (
        Dataset.from_tensor_slices(examples())
        .batch(2)
        .apply(experimental.parse_example_dataset({"a": tf.io.FixedLenFeature([], tf.int64)}, 2))
    ),
    "random": lambda _: Dataset.random(seed=3).take(9),
    "random, the same in every epoch": lambda _: Dataset.random(seed=3, rerandomize_each_iteration=False).take(9),
    "random, another in every epoch": lambda _: Dataset.random(seed=3, rerandomize_each_iteration=True).take(9),
    "rebatch": lambda _: Dataset.range(20).batch(6).rebatch([3, 4, 1]),
    "scan": lambda _: Dataset.range(9).scan(tf.constant(0, tf.int64), sums),
    "sparse": lambda _: Dataset.from_tensor_slices(tf.sparse.from_dense(np.eye(5))),
    "sql": lambda files: experimental.SqlDataset("sqlite", files.table, "select number from numbers", (tf.int32,)),
    "take_while": lambda _: Dataset.range(20).take_while(lambda x: x < 9),
    "unique": lambda _: Dataset.range(20).map(lambda x: x % 7).unique(),
}

IN_FUNCTIONS = {
    "batch": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(3 * x).batch(2)),
    "cache": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(3 * x).cache()),
    "concatenate": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(x).concatenate(Dataset.range(x))),
    "filter": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(4 * x).filter(lambda y: y % 3 > 0)),
    "group_by_window": lambda _: Dataset.range(3).flat_map(lambda x: batched_in_groups(Dataset.range(4 * x))),
    "interleave": lambda _: Dataset.range(3).flat_map(
        lambda x: Dataset.range(2 * x).interleave(lambda y: Dataset.range(y), cycle_length=2)
    ),
    "map, prefetch, skip and take": lambda _: Dataset.range(4).interleave(
        lambda x: Dataset.range(9).map(lambda y: x * y, num_parallel_calls=2).prefetch(2).skip(1).take(x), 2
    ),
    "padded_batch": lambda _: Dataset.range(3).flat_map(
        lambda x: Dataset.range(2 * x).map(lambda y: tf.ones([y])).padded_batch(2)
    ),
    "records": lambda files: Dataset.from_tensor_slices(files.records).interleave(tf.data.TFRecordDataset, 2),
    "repeat": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(x).repeat(2).enumerate()),
    "scan": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(3 * x).scan(tf.constant(0, tf.int64), sums)),
    "shuffle": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(4 * x).shuffle(3, seed=1)),
    "slices": lambda _: Dataset.range(4).map(tf.range).flat_map(Dataset.from_tensor_slices),
    "take_while": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(5 * x).take_while(lambda y: y < 6)),
    "unbatch": lambda _: Dataset.range(4).flat_map(lambda x: Dataset.from_tensors(tf.range(x)).unbatch()),
    "unique": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.range(4 * x).map(lambda y: y % 5).unique()),
    "window": lambda _: Dataset.range(10).window(4, 2).flat_map(lambda window: window.batch(3)),
    "zip": lambda _: Dataset.range(3).flat_map(lambda x: Dataset.zip((Dataset.range(3 * x), Dataset.range(2 * x)))),
}


def plain(elements):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(each, expand_composites=True)] for each in elements]


def gone_on_after(number, dataset, same):
    """Read some elements, and the others from an iterator over another dataset that is given the state of that one."""
    first, then = iter(dataset), iter(same)
    seen = [next(first) for _ in range(number)]
    tf.raw_ops.DeserializeIterator(resource_handle=resource_of(then), serialized=state_of(first))
    return plain([*seen, *then])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", NOT_READ)
def test_an_iterator_goes_on_from_the_state_of_another(kind, files):
    make = NOT_READ[kind]
    dataset = make(files)
    assert restored_wrongly(extract(dataset)) is None
    expected = plain(dataset)
    for number in range(len(expected) + 1):
        assert gone_on_after(number, make(files), make(files)) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", IN_FUNCTIONS)
def test_an_iterator_over_what_a_function_makes_goes_on_from_the_state_of_another(kind, files):
    dataset, same = (IN_FUNCTIONS[kind](files) for _ in range(2))
    assert restored_wrongly(extract(dataset)) is None
    expected = plain(dataset)
    for number in range(len(expected) + 1):
        assert gone_on_after(number, dataset, same) == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", NOT_READ)
def test_a_dataset_of_it_gives_the_same_epochs_if_it_is_changed_in_one_of_them(kind, files):
    dataset = autopipe.optimize(NOT_READ[kind](files).prefetch(1), keeps="sequence", seconds=0)
    epochs = []
    for _epoch in range(3):
        epochs.append([])
        for element in dataset:
            epochs[-1].append(element)
            if len(epochs[-1]) == 2:
                dataset.retune({"prefetch.buffer_size": len(epochs) + 1})
    same = NOT_READ[kind](files)
    assert [plain(epoch) for epoch in epochs] == [plain(same) for _epoch in range(3)]


SHUFFLED = {
    "and not read": lambda numbers: numbers.shuffle(9, seed=1).unique(),
    "and not read, repeated": lambda numbers: numbers.shuffle(9, seed=1).unique().repeat(2),
    "by two branches": lambda numbers: Dataset.zip((shared := numbers.shuffle(9, seed=1), shared)),
    "once, with a seed": lambda numbers: numbers.shuffle(9, seed=1, reshuffle_each_iteration=False).unique(),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", SHUFFLED)
def test_a_shuffle_that_is_not_read_draws_the_same_orders_if_the_dataset_is_changed_in_mid_epoch(kind):
    shuffled = SHUFFLED[kind](Dataset.range(9))
    dataset = autopipe.optimize(SHUFFLED[kind](Dataset.range(9)).prefetch(1), keeps="sequence", seconds=0)
    for number in range(3):
        epoch = []
        for element in dataset:
            epoch.append(element)
            dataset.retune({"prefetch.buffer_size": (len(epoch) + number) % 3 + 1})
        assert plain(epoch) == plain(shuffled)


CHOOSING = {
    "sample_from_datasets": lambda few, many: Dataset.sample_from_datasets([few, many], [0.5, 0.5], seed=2),
    "choose_from_datasets": lambda few, many: Dataset.choose_from_datasets(
        [few, many], Dataset.range(2).repeat(), stop_on_empty_dataset=False
    ),
    "rejection_resample": lambda few, _: few.repeat(9).rejection_resample(
        lambda x: tf.cast(x > 0, tf.int32), [0.5, 0.5], [0.2, 0.8], seed=1
    ),
    "in a function": lambda few, many: Dataset.range(2).flat_map(
        lambda _: Dataset.choose_from_datasets([few, many], Dataset.range(2).repeat(), stop_on_empty_dataset=False)
    ),
    "before a stage that is not read": lambda few, many: Dataset.sample_from_datasets(
        [few, many], [0.5, 0.5], seed=2
    ).unique(),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", CHOOSING)
def test_what_chooses_among_datasets_is_not_changed_while_it_is_read_and_loses_nothing(kind):
    chosen = CHOOSING[kind](Dataset.range(5), Dataset.range(100, 120))
    dataset = autopipe.optimize(chosen.map(lambda *x: x), keeps="sequence", seconds=0)
    assert str(restored_wrongly(dataset.tree)).strip("_") == "DirectedInterleaveDataset"
    seen = []
    for number, element in enumerate(dataset):
        seen.append(element)
        dataset.retune({"thread_pool.size": number % 3 + 1})
    assert plain(seen) == plain(chosen.map(lambda *x: x))


CSV = {
    "one reader": lambda file: experimental.CsvDataset(file, [tf.int64], header=True),
    "in a function": lambda file: Dataset.from_tensors(file).interleave(
        lambda each: experimental.CsvDataset(each, [tf.int64], header=True)
    ),
    "make_csv_dataset": lambda file: experimental.make_csv_dataset(file, 5, num_epochs=1, shuffle=False),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", CSV)
def test_csv_files_with_a_header_are_not_changed_while_they_are_read_and_lose_no_line(kind, tmp_path):
    (tmp_path / "rows.csv").write_text("number\n" + "".join(f"{each}\n" for each in range(200)))
    written = CSV[kind](str(tmp_path / "rows.csv"))
    dataset = autopipe.optimize(written, keeps="sequence", seconds=0)
    assert "csv" in restored_wrongly(dataset.tree).lower()
    seen = []
    for number, element in enumerate(dataset):
        seen.append(element)
        dataset.retune({"thread_pool.size": number % 3 + 1})
    assert plain(seen) == plain(written)


def test_a_stage_that_nobody_tried_counts_as_restored_wrongly():
    class Own(tf.data.Dataset):
        def __init__(self, source):
            self._source = source
            super().__init__(source._variant_tensor)

        def _inputs(self):
            return [self._source]

        @property
        def element_spec(self):
            return self._source.element_spec

    assert restored_wrongly(extract(Own(Dataset.range(3)).batch(2))) == "Own"
