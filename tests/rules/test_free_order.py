import pytest
import tensorflow as tf

from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from sides import apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "free_order"
NUMBERS = tf.data.Dataset.range(60)


def double(x):
    return x * 2


def even(x):
    return x % 4 == 0


COUNTER = tf.Variable(0, dtype=tf.int64)
PARALLEL = NUMBERS.map(double, num_parallel_calls=2)


def test_elements_may_come_when_they_are_ready_if_a_shuffle_follows():
    expected = "range(0, 60) | map(double, calls=2, deterministic=False) | shuffle(60)"
    done = assert_rewrites(RULE, PARALLEL.shuffle(60), expected)
    assert done.steps[0].keeps is Keeps.ELEMENTS


def test_every_stage_up_to_one_that_makes_something_of_the_order_is_freed():
    dataset = PARALLEL.batch(2).unbatch().map(double, num_parallel_calls=2).filter(even).prefetch(1)
    dataset = dataset.map(double, num_parallel_calls=3).shuffle(9).batch(5)
    assert_rewrites(
        RULE,
        dataset,
        "range(0, 60) | map(double, calls=2) | batch(2) | unbatch() | map(double, calls=2, deterministic=False) "
        "| filter(even) | prefetch(1) | map(double, calls=3, deterministic=False) | shuffle(9) | batch(5)",
    )


def test_an_interleave_is_freed_too():
    dataset = NUMBERS.interleave(tf.data.Dataset.range, cycle_length=3, num_parallel_calls=2).shuffle(99)
    assert_rewrites(
        RULE, dataset, "range(0, 60) | interleave(range, cycle=3, calls=2, deterministic=False) | shuffle(99)"
    )


@pytest.mark.parametrize(
    "dataset",
    [
        PARALLEL.batch(4).shuffle(9),
        PARALLEL.take(5).shuffle(9),
        PARALLEL.enumerate().shuffle(9),
        PARALLEL.cache().shuffle(9),
        PARALLEL.repeat(2).shuffle(9),
        PARALLEL.batch(4),
        NUMBERS.map(double).shuffle(9),
        NUMBERS.map(double, num_parallel_calls=2, deterministic=False).shuffle(9),
        NUMBERS.map(double, num_parallel_calls=2, deterministic=True).shuffle(9),
        PARALLEL.shuffle(9, seed=1),
    ],
)
def test_does_not_match_where_order_is_seen_kept_or_free_already(dataset):
    assert_no_match(RULE, dataset)


def test_an_order_that_comes_again_is_left_alone():
    assert_no_match(RULE, PARALLEL.shuffle(9, reshuffle_each_iteration=False))


def seeded(x):
    return tf.cast(x, tf.float32) + tf.random.uniform((), seed=3)


@pytest.mark.parametrize(
    "dataset",
    [
        PARALLEL.map(seeded).shuffle(9),
        PARALLEL.filter(lambda x: seeded(x) > 0.5).shuffle(9),
        PARALLEL.map(lambda x: x + COUNTER.assign_add(1)).shuffle(9),
        PARALLEL.shuffle(1),
    ],
)
def test_does_not_match_where_a_function_makes_something_of_the_order(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_where_the_sequence_is_asked_for():
    options = tf.data.Options()
    options.deterministic = True
    assert_refuses(
        RULE, PARALLEL.shuffle(9), "it keeps elements only, since elements may come in another order", Keeps.SEQUENCE
    )
    assert_refuses(RULE, PARALLEL.shuffle(9).with_options(options), "options.deterministic")


def test_refuses_where_the_author_asked_for_it_upstream_of_what_is_not_read():
    options = tf.data.Options()
    options.deterministic = True
    scanned = tf.data.Dataset.range(9).with_options(options).scan(0, lambda state, x: (state, x))
    parallel = scanned.map(lambda x: x + 1, num_parallel_calls=2)
    assert_refuses(RULE, parallel.shuffle(9), "the author set options.deterministic to True")


def endless(x):
    return tf.data.Dataset.range(x, x + 3).map(double).repeat()


def test_refuses_where_what_is_quick_would_come_more_often():
    balanced = NUMBERS.take(2).interleave(endless, cycle_length=2, num_parallel_calls=2)
    assert_refuses(RULE, balanced.shuffle(9).batch(4).take(3), "endless may make endless datasets (RepeatDataset)")
    assert_refuses(RULE, PARALLEL.shuffle(9).take(5), "take(5) downstream leaves some out")
    unknown = PARALLEL.filter(even).shuffle(60)
    assert_refuses(RULE, unknown.batch(2).take(2), "take(2) downstream leaves some out")


def test_of_what_is_mixed_whole_some_may_be_taken():
    expected = "range(0, 60) | map(double, calls=2, deterministic=False) | shuffle(60) | take(5)"
    assert one_line(apply(RULE, PARALLEL.shuffle(60).take(5)).after) == expected
