"""Shuffles that are equal draw apart, one that is shared draws in turn, and one that has drawn stays as it is."""

import re

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset


def heavy(x):
    product = tf.linalg.matmul(tf.fill([100, 100], tf.cast(x, tf.float32)), tf.ones([100, 100]))
    return x + 0 * tf.cast(tf.reduce_max(tf.sin(product)) * 1000, tf.int64)


def add_none(x):
    return x + 0


def same(x):
    return x


def epochs(dataset, number=3):
    return [[[int(part) for part in tf.nest.flatten(each)] for each in dataset] for _epoch in range(number)]


def equal_ones():
    numbers = Dataset.range(30)
    left, right = (numbers.shuffle(30, seed=1).take(-1).map(function) for function in (same, add_none))
    return Dataset.zip((left, right))


def equal_ones_after_one_map():
    mapped = Dataset.range(30).map(heavy)
    return Dataset.zip((mapped.shuffle(30, seed=1).map(same), mapped.shuffle(30, seed=1).map(add_none)))


def shared_with_a_seed():
    shared = Dataset.range(20).cache().shuffle(20, seed=1)
    return Dataset.zip((shared.map(heavy), shared))


def shared_upstream_of_two_others():
    shared = Dataset.range(20).shuffle(20, seed=1).map(heavy)
    return Dataset.zip((shared.shuffle(5, seed=2), shared))


PAIRED = [equal_ones, equal_ones_after_one_map, shared_with_a_seed, shared_upstream_of_two_others]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seconds", [0, 5])
@pytest.mark.parametrize("make", PAIRED)
def test_seeded_orders_of_several_branches_stay_what_they_were(make, seconds):
    ours = autopipe.optimize(make(), keeps="sequence", seconds=seconds)
    assert epochs(ours) == epochs(make())


def test_equal_shuffles_that_draw_from_a_seed_are_two():
    left, right = (node for node in trees.walk(extract(equal_ones())) if isinstance(node, ir.Shuffle))
    assert left != right
    assert extract(dataset := Dataset.range(9).shuffle(9, seed=1)) == extract(dataset)


@pytest.mark.parametrize("keeps", ["training", "sequence"])
def test_an_order_that_was_drawn_when_the_dataset_was_made_parts_training_from_validation(keeps):
    numbers = Dataset.range(100).shuffle(100, reshuffle_each_iteration=False)
    train, validation = numbers.take(80), numbers.skip(80)
    ours = autopipe.optimize(train.batch(8), keeps=keeps, seconds=0)
    seen = []
    for number, batch in enumerate(ours):
        seen += batch.numpy().tolist()
        ours.retune({"thread_pool.size": number % 3 + 1})
    assert sorted([*seen, *map(int, validation)]) == list(range(100))


def test_two_branches_of_an_order_that_was_drawn_once_stay_paired():
    shared = Dataset.range(20).cache().shuffle(20, reshuffle_each_iteration=False)
    ours = autopipe.optimize(Dataset.zip((shared.map(heavy), shared)), keeps="sequence")
    assert all(left == right for epoch in epochs(ours) for left, right in epoch)


def test_equal_caches_of_what_is_drawn_are_two():
    drawn = Dataset.range(4).map(lambda x: tf.cast(x, tf.float32) + tf.random.uniform(()))
    views = Dataset.zip((drawn.cache().take(-1), drawn.cache().take(-1)))
    optimized = autopipe.optimize(views, seconds=0)
    for _ in range(3):
        assert all(float(left) != float(right) for left, right in optimized)


def test_a_dataset_as_an_element_is_not_looked_into():
    inner = Dataset.range(3).map(lambda x: tf.cast(x, tf.float32) + tf.random.uniform(()))
    assert isinstance(extract(Dataset.from_tensors(inner)), ir.Opaque)


def test_a_copy_to_a_device_is_told_to_stand_after_optimize_and_may():
    numbers = Dataset.range(9).map(heavy)
    to_device = tf.data.experimental.prefetch_to_device("/cpu:0")
    copied = extract(numbers.apply(to_device)).input
    assert "put it after optimize()" in copied.reason
    assert epochs(autopipe.optimize(numbers).apply(to_device)) == [[[number] for number in range(9)]] * 3


@pytest.mark.parametrize(
    ("joined", "remedy"),
    [
        (tf.data.experimental.map_and_batch(heavy, 2), r"write map\(.*\)\.batch\(size\) in its place"),
        (tf.data.experimental.shuffle_and_repeat(5), r"write shuffle\(.*\)\.repeat\(count\) in its place"),
    ],
)
def test_what_tensorflow_deprecates_is_not_read_and_said_so_with_what_is(joined, remedy):
    (node,) = trees.walk(extract(Dataset.range(9).apply(joined)))
    assert re.search(remedy, node.reason)


def test_a_number_of_reads_that_is_given_as_a_tensor_is_read_as_a_number():
    read = extract(tf.data.TFRecordDataset("a", num_parallel_reads=tf.constant(4, tf.int64)))
    assert type(read.num_parallel_reads) is int


@pytest.mark.parametrize("count", [-2, -9])
def test_any_number_of_repetitions_below_0_is_without_end(count):
    assert extract(Dataset.range(9).repeat(count)).count == -1
    repeated = Dataset.range(10).repeat(count).shuffle(5).take(15)
    assert len(list(autopipe.optimize(repeated, seconds=0))) == 15


def test_what_is_repeated_not_once_stays_as_it_is():
    nothing = Dataset.range(10).repeat(0).shuffle(5)
    assert "a repeat(0) gives nothing" in extract(nothing).input.reason
    joined = nothing.concatenate(Dataset.range(3))
    assert list(autopipe.optimize(joined, seconds=0).as_numpy_iterator()) == [0, 1, 2]


def without_size():
    dataset = Dataset.range(9).batch(2)
    del dataset._batch_size
    return dataset


def with_another_count():
    dataset = Dataset.range(9).repeat(2)
    dataset._count = tf.constant([2, 3])
    return dataset


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (without_size, "this TensorFlow release keeps its arguments elsewhere ('_BatchDataset' object has no"),
        (with_another_count, "autopipe cannot read its arguments (ValueError: can only convert an array of size 1"),
    ],
)
def test_a_stage_whose_arguments_another_release_keeps_in_another_way_is_opaque(changed, reason):
    node = extract(changed())
    assert isinstance(node, ir.Opaque)
    assert node.reason.startswith(reason)


def test_a_stage_whose_argument_only_a_large_copy_tells_may_stand_after_optimize(monkeypatch):
    monkeypatch.setattr("autopipe.pipeline.serialized._LARGEST_GRAPH_BYTES", 2**20)
    dataset = Dataset.from_tensor_slices(tf.zeros([2**20])).ignore_errors()
    node = extract(dataset)
    assert isinstance(node, ir.Opaque)
    assert node.reason.startswith(
        "its log_warning argument can only be read by copying 4 MiB of tensors, above the 1 MiB"
    )
    assert node.reason.endswith("put it after optimize(), or read these from files")


def test_what_a_function_captures_is_copied_too(monkeypatch):
    monkeypatch.setattr("autopipe.pipeline.serialized._LARGEST_GRAPH_BYTES", 2**20)
    large = tf.zeros([2**20])
    node = extract(Dataset.range(4).map(lambda x: tf.gather(large, x)).ignore_errors())
    assert "copying 4 MiB of tensors" in node.reason


def test_what_is_joined_to_itself_again_and_again_stays_as_it_is():
    numbers = Dataset.range(3)
    for _ in range(14):
        numbers = numbers.concatenate(numbers)
    tree = extract(numbers)
    assert isinstance(tree, ir.Opaque)
    assert "it has 32,767 stages" in tree.reason
    assert "write repeat(count)" in tree.reason


def test_a_state_that_is_sparse_is_not_read():
    scanned = Dataset.range(5).scan(tf.sparse.from_dense([1, 0]), lambda state, x: (state, x))
    assert "sparse or ragged" in extract(scanned).reason
    assert list(autopipe.optimize(scanned, seconds=0).as_numpy_iterator()) == list(range(5))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_of_tensorflow_1_is_not_read():
    old = tf.compat.v1.data.Dataset.range(3).map_with_legacy_function(lambda x: x + 1)
    assert isinstance(extract(old), ir.Opaque)
    assert list(autopipe.optimize(old, seconds=0).as_numpy_iterator()) == [1, 2, 3]


@pytest.mark.parametrize("reader", [tf.data.TextLineDataset, tf.data.TFRecordDataset], ids=["lines", "records"])
def test_an_order_of_names_that_two_branches_draw_in_turn_is_seen_behind_any_reader(reader):
    names = Dataset.from_tensor_slices(["a", "b"]).shuffle(2, seed=1)
    lines = reader(names)
    tree = extract(Dataset.zip((lines.map(tf.strings.upper), lines.map(tf.strings.lower))))
    assert any(isinstance(node, ir.Opaque) and "two branches" in node.reason for node in trees.walk(tree))


@pytest.mark.parametrize("after", [lambda data: data.map(lambda x: x + 1), lambda data: data], ids=["map", "itself"])
def test_an_optimized_shuffle_that_two_branches_read_is_drawn_in_turn_where_both_are_optimized_again(after):
    def pairs():
        data = autopipe.optimize(Dataset.range(50).shuffle(50, seed=3), seconds=0)
        return Dataset.zip((after(data).take(9), after(data).take(9)))

    assert list(autopipe.optimize(pairs(), seconds=0).as_numpy_iterator()) == list(pairs().as_numpy_iterator())


def test_what_is_deeper_than_python_can_follow_stays_as_it_is():
    numbers = Dataset.range(3)
    for _ in range(400):
        numbers = numbers.concatenate(Dataset.range(3))
    tree = extract(numbers)
    assert isinstance(tree, ir.Opaque)
    assert "more stages one after another" in tree.reason
    dataset = autopipe.optimize(numbers.map(lambda x: x + 1).batch(100), seconds=0)
    assert [len(batch) for batch in dataset] == [100] * 12 + [3]
