"""What others may read the same of stays in the author's own cache."""

import time
from functools import partial

import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.shared_caches import leave_shared_caches
from autopipe.pipeline.text import one_line
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps, catalogue
from autopipe.runtime.dataset import OptimizedDataset
from sides import Answers

Dataset = tf.data.Dataset
COUNT = 40


def double(x):
    return x * 2


def doubled(x, deterministic=None):
    return Dataset.range(x).map(double, num_parallel_calls=2, deterministic=deterministic)


def noisy(x):
    return x + tf.random.uniform((), maxval=9, dtype=tf.int64)


def str_of(x):
    return tf.strings.as_string(x)


def numbers_of(batches):
    return [int(number) for batch in batches for number in batch]


def is_left(dataset):
    return any(isinstance(node, ir.SharedCache) for node in trees.walk(leave_shared_caches(extract(dataset))))


def shuffled():
    return Dataset.range(COUNT).map(double).shuffle(COUNT)


SPLITS = {
    "take and skip": (lambda held: held.skip(10), lambda held: held.take(10)),
    "shards": (lambda held: held.shard(2, 0), lambda held: held.shard(2, 1)),
    "batches": (lambda held: held.batch(5).skip(3).unbatch(), lambda held: held.batch(5).take(3).unbatch()),
    "numbers": (
        lambda held: held.enumerate().filter(lambda i, _: i % 4 > 0).map(lambda _, x: x),
        lambda held: held.enumerate().filter(lambda i, _: i % 4 == 0).map(lambda _, x: x),
    ),
    "numbers beside": (
        lambda held: Dataset.zip(held, Dataset.range(COUNT)).filter(lambda _, i: i % 4 > 0).map(lambda x, _: x),
        lambda held: Dataset.zip(held, Dataset.range(COUNT)).filter(lambda _, i: i % 4 == 0).map(lambda x, _: x),
    ),
    "groups": (
        lambda held: held.group_by_window(lambda x: x * 0, lambda _, window: window.skip(2), 10),
        lambda held: held.group_by_window(lambda x: x * 0, lambda _, window: window.take(2), 10),
    ),
    "rows": (
        lambda held: held.batch(10).map(lambda rows: rows[2:]).unbatch(),
        lambda held: held.batch(10).map(lambda rows: rows[:2]).unbatch(),
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("split", "keeps"),
    [*((split, "training") for split in SPLITS), ("shards", "elements"), ("shards", "sequence")],
)
def test_two_parts_of_one_cached_shuffle_share_nothing_in_any_epoch(split, keeps):
    held = shuffled().cache()
    training, validation = (autopipe.optimize(part(held).batch(4), keeps=keeps) for part in SPLITS[split])
    for _ in range(3):
        taken, left = set(numbers_of(training)), set(numbers_of(validation))
        assert taken | left == {2 * number for number in range(COUNT)}
        assert not taken & left


def test_a_part_that_is_optimized_shares_nothing_with_one_that_is_not():
    held = shuffled().cache()
    training, validation = autopipe.optimize(held.skip(10).batch(4)), held.take(10).batch(4)
    for _ in range(3):
        assert len({*numbers_of(training), *numbers_of(validation)}) == COUNT


def test_epochs_that_follow_one_another_take_the_same_part():
    """An iterator that starts before the one that fills the cache ends would have an order of its own."""
    training = autopipe.optimize(shuffled().cache().skip(10).batch(4))
    assert training.start_early() is None
    first = set(numbers_of(training))
    iterator = iter(training)
    seen = [*next(iterator)]
    training.retune({"prefetch.buffer_size": 3})
    assert {int(number) for number in [*seen, *(each for batch in iterator for each in batch)]} == first


@pytest.mark.usefixtures("as_fast")
def test_what_comes_after_is_rewritten_and_what_comes_before_is_not():
    training = autopipe.optimize(shuffled().cache().skip(10).prefetch(2).prefetch(3).batch(4), keeps="sequence")
    assert one_line(training.tree).startswith("cache() | skip(10) | prefetch(3) | batch(4) | prefetch(AUTOTUNE)")
    assert "Left as it is" in str(training.explain())


def test_what_a_cache_holds_already_is_what_the_sequence_keeps():
    held = Dataset.range(COUNT).map(noisy).shuffle(COUNT).cache()
    sequence = [int(x) for x in held]
    assert numbers_of(autopipe.optimize(held.batch(4), keeps="sequence")) == sequence


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keeps", ["training", "sequence"])
@pytest.mark.parametrize("filled", [True, False], ids=["filled", "empty"])
def test_what_python_code_gave_once_is_not_asked_for_again(filled, keeps):
    stream = iter(range(COUNT))
    rows = Dataset.from_generator(lambda: stream, output_signature=tf.TensorSpec((), tf.int64)).map(double).cache()
    if filled:
        assert len(list(rows)) == COUNT
    dataset = autopipe.optimize(rows.map(double).batch(4), keeps=keeps)
    for _ in range(2):
        assert numbers_of(dataset) == [4 * number for number in range(COUNT)]
    assert "could be noticed" in str(dataset.explain())


def test_what_comes_after_python_code_that_is_cached_is_cached_too():
    """Where nothing stops before the end of the author's cache, it holds the same in every epoch."""
    held = Dataset.from_generator(lambda: iter(range(COUNT)), output_signature=tf.TensorSpec((), tf.int64)).cache()
    spelled = held.map(lambda x: tf.strings.length(tf.strings.as_string(x))).shuffle(9)
    done = rewrite(leave_shared_caches(extract(spelled)), catalogue(), keeps=Keeps.SEQUENCE, measurements=Answers())
    assert "cache_fixed_work" in [step.rule for step in done.steps]
    partly = held.take(9).map(lambda x: tf.strings.length(tf.strings.as_string(x))).shuffle(9)
    done = rewrite(leave_shared_caches(extract(partly)), catalogue(), keeps=Keeps.SEQUENCE, measurements=Answers())
    assert "cache_fixed_work" not in [step.rule for step in done.steps]


@pytest.mark.parametrize(
    "held",
    [
        shuffled().cache(),
        Dataset.range(9).map(noisy).cache(),
        Dataset.from_generator(lambda: iter(range(9)), output_signature=tf.TensorSpec((), tf.int64)).cache(),
        Dataset.range(9).interleave(Dataset.range, num_parallel_calls=2, deterministic=False).cache(),
        Dataset.range(3).flat_map(partial(doubled, deterministic=False)).cache(),
        Dataset.range(9).unique().cache(),
        Dataset.range(9).shuffle(9).shuffle(9, reshuffle_each_iteration=False).cache(),
        Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(9)]).cache(),
    ],
    ids=["shuffle", "draw", "Python", "order", "order inside", "unread", "shuffle before one order", "sampled"],
)
def test_what_may_be_drawn_is_left(held):
    assert is_left(held.take(3))
    assert is_left(held.map(double).batch(2).skip(1))
    assert is_left(Dataset.zip(held.take(3), Dataset.range(9)))


def test_what_is_drawn_is_left_whatever_is_taken_of_it():
    assert is_left(shuffled().cache().batch(2))
    assert is_left(shuffled().cache().shuffle(9).take(3))
    assert not is_left(Dataset.range(9).cache().shuffle(9).take(3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", ["training", "elements", "sequence"])
def test_what_is_read_side_by_side_of_one_cached_order_belongs_together(keeps):
    held = shuffled().cache()
    images, labels = held.map(double).batch(4), held.map(str_of).batch(4)
    predicted = numbers_of(autopipe.optimize(images, keeps=keeps))
    assert predicted == [2 * int(text) for batch in labels for text in batch.numpy()]
    assert predicted == [2 * int(text) for batch in autopipe.optimize(labels, keeps=keeps) for text in batch.numpy()]


@pytest.mark.parametrize(
    "steady",
    [
        Dataset.range(9).map(double),
        Dataset.range(9).shuffle(9, seed=1, reshuffle_each_iteration=False),
        Dataset.range(9).shuffle(9, reshuffle_each_iteration=False),
        Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(9)], seed=1),
    ],
    ids=["map", "seeded", "one order", "sampled from a seed"],
)
def test_what_is_the_same_however_often_it_is_made_is_not_left(steady):
    assert not is_left(steady.cache().take(3))


def test_a_cache_that_two_branches_read_is_left_in_both():
    held = Dataset.range(9).shuffle(9).cache()
    both = held.take(3).concatenate(held.skip(3))
    tree = leave_shared_caches(extract(both))
    assert sum(isinstance(node, ir.SharedCache) for node in trees.walk(tree)) == 2
    filled = [int(x) for x in held]
    assert [int(x) for x in autopipe.optimize(both)] == filled


def test_a_look_fills_a_cache_no_further_than_it_asks():
    """Who fills it draws the order that it keeps, and a prefetch of autopipe's would come to its end."""
    for _attempt in range(4):
        dataset = autopipe.optimize(Dataset.range(8).shuffle(8, seed=3).cache(), keeps="sequence", seconds=0)
        dataset.retune({"prefetch.buffer_size": 16})
        for _ in dataset.take(1):
            time.sleep(0.1)
        written = Dataset.range(8).shuffle(8, seed=3).cache()
        list(written.take(1))
        assert [int(x) for x in dataset] == [int(x) for x in written]


def test_a_cache_of_another_is_left_where_both_are_read():
    first = shuffled().cache()
    second = first.shuffle(COUNT).cache()
    both, alone = (autopipe.optimize(each, seconds=0) for each in (Dataset.zip(first, second), second))
    assert [int(x) for _, x in both] == [int(x) for x in alone]


def test_order_that_is_freed_after_a_cache_is_free_in_it():
    free = tf.data.Options()
    free.deterministic = False
    parallel, one_by_one = (Dataset.range(9).map(double, num_parallel_calls=calls).cache() for calls in (2, None))
    assert is_left(parallel.take(3).with_options(free))
    assert is_left(tf.data.TextLineDataset(["a", "b"], num_parallel_reads=2).cache().take(3).with_options(free))
    assert is_left(Dataset.range(3).flat_map(doubled).cache().take(3).with_options(free))
    assert not is_left(one_by_one.take(3).with_options(free))
    assert not is_left(parallel.take(3))


@pytest.mark.parametrize(
    "some",
    [lambda held: held.take(4), lambda held: held.filter(lambda x: x % 3 == 0), lambda held: held.map(str_of).batch(2)],
    ids=["part", "filter", "map and batch"],
)
def test_what_was_moved_before_a_cache_stays_there_when_it_is_optimized_again(some):
    once = autopipe.optimize(some(Dataset.range(20).map(double).cache()), seconds=0).skip(1)
    expected = [str(x) for x in once]
    for keeps in ("training", "sequence"):
        assert [str(x) for x in autopipe.optimize(once, keeps=keeps, seconds=0)] == expected


def test_of_files_a_part_is_left_where_the_sequence_is_kept(tmp_path):
    """They may change, so that a cache after the take would hold what another epoch would not have read."""
    (tmp_path / "lines").write_text("\n".join(map(str, range(9))))
    lines = Dataset.from_tensors(str(tmp_path / "lines")).flat_map(tf.data.TextLineDataset).cache()
    part = extract(lines.take(3).batch(2))
    assert leave_shared_caches(part) == part
    assert one_line(leave_shared_caches(part, files_may_change=True)) == "cache() | take(3) | batch(2)"
    whole = extract(lines.batch(2))
    assert leave_shared_caches(whole, files_may_change=True) == whole


def test_pairs_of_two_who_fill_one_cache_at_once_belong_together_from_the_second_epoch_on():
    held = shuffled().cache()
    pairs = Dataset.zip((held.map(str_of), held.map(lambda x: str_of(x) + "!"))).batch(4)
    done = rewrite(extract(pairs), rules=catalogue(), keeps=Keeps.TRAINING, measurements=Answers())
    dataset = OptimizedDataset(pairs, done, Plan("none"))
    for epoch in range(3):
        found = [pair for lefts, rights in dataset.as_numpy_iterator() for pair in zip(lefts, rights, strict=True)]
        assert sorted(left for left, _ in found) == sorted(str(2 * number).encode() for number in range(COUNT))
        assert epoch == 0 or all(left + b"!" == right for left, right in found)
