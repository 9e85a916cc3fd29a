import pytest
import tensorflow as tf

import autopipe
from autopipe.rules import Keeps
from sides import assert_refuses, assert_rewrites

RULE = "select_before_cache"
Dataset = tf.data.Dataset


def double(x):
    return x * 2


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize(
    ("select", "text"),
    [
        (lambda ds: ds.take(5), "take(5)"),
        (lambda ds: ds.take(-1), "take(-1)"),
        (lambda ds: ds.skip(4), "skip(4)"),
        (lambda ds: ds.skip(99), "skip(99)"),
        (lambda ds: ds.shard(3, 1), "shard(3, 1)"),
    ],
)
def test_a_cache_holds_what_is_asked_for(select, text, keeps):
    dataset = select(Dataset.range(9).map(double).cache()).batch(2)
    assert_rewrites(RULE, dataset, f"range(0, 9) | map(double) | {text} | cache() | batch(2)", keeps)


def test_an_order_that_is_kept_is_that_of_both_parts():
    held = Dataset.range(40).shuffle(40, reshuffle_each_iteration=False).cache()
    parts = [autopipe.optimize(part.batch(4)) for part in (held.skip(10), held.take(10))]
    for _ in range(2):
        taken, left = ({int(number) for batch in part for number in batch} for part in parts)
        assert len(taken) == 30
        assert len(left) == 10
        assert not taken & left


def test_an_epoch_of_a_part_runs_the_function_for_that_part_once():
    ran = tf.Variable(0, dtype=tf.int64)

    @autopipe.stateless
    def counting(x):
        ran.assign_add(1)
        return x

    def counted(x):
        return tf.ensure_shape(tf.py_function(counting, [x], tf.int64), ())

    part = autopipe.optimize(Dataset.range(40).map(counted).cache().take(10), rules=[RULE], seconds=0)
    for _ in range(3):
        assert [int(x) for x in part] == list(range(10))
    assert int(ran) == 10


def test_refuses_elements_that_are_drawn():
    assert_refuses(RULE, Dataset.range(9).map(noisy).cache().take(3), "random numbers")


def test_refuses_a_cache_in_a_file(tmp_path):
    assert_refuses(RULE, Dataset.range(9).cache(str(tmp_path / "cache")).take(3), "file")


def test_refuses_a_cache_that_is_read_twice():
    held = Dataset.range(9).map(double).cache()
    assert_refuses(RULE, Dataset.zip(held.take(3), held), "read twice")


def test_refuses_where_errors_are_ignored():
    held = Dataset.range(9).map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x, tf.float32), "")).cache()
    assert_refuses(RULE, held.skip(3).ignore_errors(), "ignore_errors")
