"""Iterators go on over a pipeline of other knobs from where they are: every element exactly once per epoch."""

import gc
import gzip
import time
from contextlib import nullcontext

import pytest
import tensorflow as tf
from retuning import flat, follows, listening, numbers, read_retuning, setting

import autopipe

pytestmark = pytest.mark.usefixtures("as_fast")

Dataset = tf.data.Dataset


def add_one(x):
    return x + 1


def up_to(x):
    return Dataset.range(x)


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.range(x), [x], validate=False)


def zipped_with_itself(dataset):
    return Dataset.zip((dataset, dataset.skip(3)))


def joined_to_itself(dataset):
    return dataset.concatenate(dataset)


TABLE = {
    "map": lambda: Dataset.range(20).map(add_one).batch(3),
    "shuffle": lambda: Dataset.range(20).shuffle(8, seed=3).map(add_one).batch(3),
    "cache": lambda: Dataset.range(20).map(add_one).cache().shuffle(8, seed=5).batch(3),
    "endless": lambda: Dataset.range(11).shuffle(11, seed=2).repeat().map(add_one).batch(3),
    "repeat": lambda: Dataset.range(11).shuffle(11, seed=2).repeat(4).map(add_one).batch(3),
    "filter": lambda: Dataset.range(30).filter(lambda x: x % 3 > 0).map(add_one).batch(3),
    "interleave": lambda: Dataset.range(5).interleave(up_to, cycle_length=3, num_parallel_calls=2).map(add_one),
    "flat_map": lambda: Dataset.range(6).flat_map(up_to).map(add_one).batch(2),
    "zip": lambda: Dataset.zip((Dataset.range(15).map(add_one), Dataset.range(20).shuffle(5, seed=1))).batch(2),
    "concatenate": lambda: Dataset.range(4).map(add_one).concatenate(Dataset.range(4)).prefetch(2),
    "joined_to_itself": lambda: joined_to_itself(Dataset.range(9).shuffle(3, seed=5)).prefetch(2),
    "enumerate": lambda: Dataset.range(8).map(add_one).enumerate(3).prefetch(2),
    "padded_batch": lambda: Dataset.range(20).map(lambda x: tf.fill([x % 4], x)).padded_batch(3),
    "unbatch": lambda: Dataset.range(10).batch(4).unbatch().map(add_one),
    "take_skip_shard": lambda: Dataset.range(40).skip(3).take(17).shard(2, 1).map(add_one),
    "window": lambda: Dataset.range(20).window(3).flat_map(lambda w: w.batch(3)).map(add_one).prefetch(1),
    "seeded_random": lambda: Dataset.range(30).map(lambda x: tf.random.uniform((), seed=4)).prefetch(1),
    "unbounded": lambda: Dataset.range(20).map(add_one, num_parallel_calls=3).prefetch(2).map(add_one).batch(3),
    "automatic_cycle": lambda: Dataset.range(5).interleave(up_to, num_parallel_calls=tf.data.AUTOTUNE).map(add_one),
    "twice": lambda: zipped_with_itself(Dataset.range(12).shuffle(9, seed=3).map(add_one, num_parallel_calls=2)),
    "cached_twice": lambda: zipped_with_itself(Dataset.range(20).map(add_one).cache().prefetch(2)),
    "ragged": lambda: Dataset.range(8).map(ragged).prefetch(1),
}
# TensorFlow cannot carry over a seeded random function, one cache read at two places, nor seeds that are drawn anew.
WAITING = {"seeded_random", "cached_twice", "repeat", "joined_to_itself", "twice"}


# A meter is a stage after all others, so that it meets one thing or another only in what ends or waits otherwise.
METERED = ["map", "endless", "cache", "ragged", "seeded_random"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "metered"),
    [*((name, False) for name in TABLE), *((name, True) for name in METERED)],
    ids=[*TABLE, *(f"{name}, metered" for name in METERED)],
)
def test_retuning_after_every_element_keeps_the_sequence(name, metered):
    original = TABLE[name]()
    epochs = 1 if name == "endless" else 2
    expected = [flat(original) for _epoch in range(epochs)]
    dataset = autopipe.optimize(TABLE[name](), keeps="sequence", seconds=0)
    with listening() if metered else nullcontext([]) as readings:
        assert [flat(read_retuning(dataset)) for _epoch in range(epochs)] == expected
    assert bool(readings) == metered
    iterator = iter(dataset)
    next(iterator)
    dataset.retune(setting(dataset, 1))
    assert name in WAITING or follows(iterator._autopipe_reading, dataset)


def test_a_shuffle_before_another_draws_as_it_does_without_autopipe_where_nobody_has_read_yet():
    def written():
        return Dataset.range(8).shuffle(8, seed=3).shuffle(3, seed=4).map(add_one)

    dataset = autopipe.optimize(written(), keeps="sequence", seconds=0)
    iterator = iter(dataset)
    dataset.retune({"prefetch.buffer_size": 3})
    as_written = written()
    expected = [flat(as_written) for _ in range(3)]
    assert [flat(iterator), flat(dataset), flat(dataset)] == expected


@pytest.mark.parametrize(
    "cut",
    {
        "endless": lambda dataset: dataset,
        "taken": lambda dataset: dataset.take(30),
        "zipped": lambda dataset: Dataset.zip((dataset, Dataset.range(30))),
    }.items(),
    ids=lambda case: case[0],
)
def test_iterators_after_one_that_was_retuned_go_on_with_the_orders_of_a_seed(cut):
    def made():
        return cut[1](Dataset.range(25).shuffle(25, seed=2).repeat()).prefetch(1)

    original, dataset = made(), autopipe.optimize(made(), keeps="sequence", seconds=0)
    for _epoch in range(2):
        assert flat(read_retuning(dataset)) == flat(original)


def test_nothing_is_read_ahead_for_a_meter_where_an_option_forbids_tensorflow_to():
    counted, options = tf.Variable(0), tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    counting = Dataset.range(9).map(lambda x: x + tf.cast(counted.assign_add(1), tf.int64)).with_options(options)
    with listening():
        iterator = iter(autopipe.optimize(counting, seconds=0))
        assert [int(next(iterator)), int(next(iterator))] == [1, 3]
        time.sleep(0.1)
        assert int(counted) == 2


FREE = {
    "interleave": lambda: Dataset.range(5).interleave(up_to, 3, 2, num_parallel_calls=2, deterministic=False),
    "options": lambda: unordered(Dataset.range(6).interleave(up_to, 3, num_parallel_calls=2).map(add_one, 2).batch(2)),
    "shuffle": lambda: Dataset.range(20).shuffle(5).map(add_one, num_parallel_calls=2).batch(3),
    "mixed": lambda: Dataset.range(5).interleave(up_to, 2, num_parallel_calls=1, deterministic=False).shuffle(5),
    "cached": lambda: Dataset.range(5).interleave(up_to, 2, num_parallel_calls=2, deterministic=False).cache(),
}


def unordered(dataset):
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FREE)
def test_retuning_after_every_element_keeps_the_elements_where_their_order_is_free(name):
    expected = numbers(FREE[name]())
    dataset = autopipe.optimize(FREE[name](), keeps="elements", seconds=0)
    assert [numbers(read_retuning(dataset)) for _epoch in range(2)] == [expected] * 2


def test_a_knob_that_is_not_live_changes_from_the_next_iterator_on():
    made = Dataset.range(9).interleave(up_to, 2, block_length=3, num_parallel_calls=2, deterministic=False)
    made = made.shuffle(4).prefetch(1)
    dataset = autopipe.optimize(made, rules=())
    before = {"interleave[up_to].cycle_length": 2, "interleave[up_to].block_length": 3, "shuffle.buffer_size": 4}
    after = {"interleave[up_to].cycle_length": 5, "interleave[up_to].block_length": 2, "shuffle.buffer_size": 9}
    with listening() as readings:
        iterator = iter(dataset)
        next(iterator)

        dataset.retune({**after, "prefetch.buffer_size": 6})

        assert readings[0].knobs == dataset.knobs | before
        assert dataset.knobs.items() >= {**after, "prefetch.buffer_size": 6}.items()
        del iterator
        _ = iter(dataset)
        assert readings[1].knobs == dataset.knobs


FILES = {
    "tfrecord": lambda names, **arguments: tf.data.TFRecordDataset(names, **arguments),
    "text": lambda names, **arguments: tf.data.TextLineDataset(names, **arguments),
    "fixed_length": lambda names, **arguments: tf.data.FixedLengthRecordDataset(names, 4, **arguments),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("reads", [None, 2], ids=["one by one", "at once"])
@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("kind", FILES)
def test_another_buffer_to_read_into_gives_the_same_records(kind, compression, reads, tmp_path):
    names = [str(tmp_path / f"{number}") for number in range(3)]
    for number, name in enumerate(names):
        write(kind, name, compression, [f"{number}{line:02}\n" for line in range(2)])
    made = FILES[kind](names, compression_type=compression, num_parallel_reads=reads)
    dataset = autopipe.optimize(made.map(tf.strings.strip, num_parallel_calls=2).prefetch(2), rules=())
    assert f"{kind}_files.buffer_size" in dataset.knobs
    with listening() as readings:
        assert [flat(read_retuning(dataset)) for _epoch in range(2)] == [flat(dataset.original)] * 2
    assert follows(readings[-1], dataset)


def write(kind, name, compression, lines):
    if kind == "tfrecord":
        with tf.io.TFRecordWriter(name, compression) as file:
            for line in lines:
                file.write(line)
        return
    with gzip.open(name, "wt") if compression else open(name, "w") as file:
        file.writelines(lines)


def test_captured_variables_and_tables_stay_the_same_live_objects():
    factor = tf.Variable(7, dtype=tf.int64)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)
    dataset = autopipe.optimize(Dataset.range(3).map(lambda x: x * factor + table.lookup(x)), keeps="sequence")
    assert flat(dataset) == [0, 7, 14]

    factor.assign(100)
    table.insert(tf.constant([1], tf.int64), tf.constant([5], tf.int64))

    assert flat(dataset) == [0, 105, 200]


def test_a_generator_is_read_again_in_each_epoch_and_retuned_between_them():
    runs = []

    def numbers():
        runs.append(1)
        yield from range(6)

    made = Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).map(add_one, 2).prefetch(1)
    dataset = autopipe.optimize(made, keeps="sequence")
    assert not runs

    for step in range(2):
        assert flat(dataset) == [1, 2, 3, 4, 5, 6]
        dataset.retune(setting(dataset, step))
    assert len(runs) == 2


def test_retuning_under_a_generator_waits_for_the_next_epoch_and_loses_nothing():
    made = Dataset.from_generator(lambda: iter(range(6)), output_signature=tf.TensorSpec((), tf.int64)).prefetch(1)
    dataset = autopipe.optimize(made, keeps="sequence")
    iterator = iter(dataset)
    first = [int(next(iterator)) for _ in range(2)]

    dataset.retune({"prefetch.buffer_size": 5})

    assert first + [int(x) for x in iterator] == list(range(6))
    assert dataset.knobs["prefetch.buffer_size"] == 5
    assert flat(dataset) == list(range(6))


HOLDING_MUCH = {
    "a shuffle": lambda: Dataset.range(100).shuffle(50),
    "a shuffle of nobody knows how many": lambda: Dataset.range(100).filter(lambda x: x >= 0).shuffle(50),
    "a full cache": lambda: Dataset.range(100).cache(),
    "a cache that fills": lambda: Dataset.range(100).cache().repeat(1),
}


@pytest.mark.parametrize("name", HOLDING_MUCH)
def test_an_iterator_that_holds_much_waits_for_the_next_epoch(name, monkeypatch):
    monkeypatch.setattr("autopipe.runtime.repoint.MOST_HELD", 40)
    monkeypatch.setattr("autopipe.runtime.iterators.MOST_HELD", 40)
    dataset = autopipe.optimize(HOLDING_MUCH[name]().map(add_one, num_parallel_calls=2), rules=())
    (knob,) = (name for name in dataset.knobs if name.endswith("num_parallel_calls"))
    if name == "a full cache":
        assert sorted(map(int, dataset)) == list(range(1, 101))
    iterator = iter(dataset)
    (reading,) = dataset._iterators.live()
    seen = [int(next(iterator)) for _ in range(60)]
    dataset.retune({knob: 3})
    assert reading.knobs[knob] == 2
    assert sorted([*seen, *map(int, iterator)]) == list(range(1, 101))
    assert sorted(map(int, dataset)) == list(range(1, 101))
    following = iter(dataset)
    assert [each.knobs[knob] for each in dataset._iterators.live() if each.iterator() is following] == [3]


def test_retuning_after_the_end_leaves_an_iterator_at_its_end():
    dataset = autopipe.optimize(Dataset.range(3).prefetch(1))
    iterator = iter(dataset)
    assert len(list(iterator)) == 3
    dataset.retune({"prefetch.buffer_size": 4})
    with pytest.raises(StopIteration):
        next(iterator)


def test_two_iterators_are_both_retuned_from_where_they_are():
    dataset = autopipe.optimize(Dataset.range(6).map(add_one), keeps="sequence")
    one, two = iter(dataset), iter(dataset)
    assert [int(next(one)), int(next(one)), int(next(two))] == [1, 2, 1]
    dataset.retune({"prefetch.buffer_size": 3})
    assert [int(x) for x in one] == [3, 4, 5, 6]
    assert [int(x) for x in two] == [2, 3, 4, 5, 6]


def test_the_iterator_outlives_the_dataset():
    iterator = iter(autopipe.optimize(Dataset.range(6).map(lambda x: x * 3)))
    gc.collect()
    assert [int(x) for x in iterator] == [0, 3, 6, 9, 12, 15]
