import pytest
import tensorflow as tf

import autopipe
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import assert_no_match, assert_refuses, assert_rewrites

RULE = "skip_before_batch"


def structure(x):
    return {"x": x, "y": (tf.strings.as_string(x), tf.fill([2, 3], x))}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 6, 9])
def test_leaves_batches_out_before_they_are_stacked(count, drop, keeps):
    batches = tf.data.Dataset.range(23).map(structure).batch(4, drop_remainder=drop)
    shown = f"batch(4{', drop_remainder=True' if drop else ''})"
    assert_rewrites(RULE, batches.skip(count), f"range(0, 23) | map(structure) | skip({4 * count}) | {shown}", keeps)


def test_no_elements_an_unknown_number_and_elements_without_end():
    numbers = tf.data.Dataset.range(23)
    assert_rewrites(RULE, numbers.take(0).batch(4).skip(1), "range(0, 23) | take(0) | skip(4) | batch(4)")
    some = numbers.filter(lambda x: x > 4).batch(4)
    assert_rewrites(RULE, some.skip(2), "range(0, 23) | filter(<lambda>) | skip(8) | batch(4)", Keeps.SEQUENCE)
    endless = numbers.repeat().batch(4, num_parallel_calls=2).skip(3).take(9)
    expected = "range(0, 23) | repeat() | skip(12) | batch(4, calls=2) | take(9)"
    assert_rewrites(RULE, endless, expected, Keeps.SEQUENCE)


def test_keeps_a_seeded_order():
    dataset = tf.data.Dataset.range(23).shuffle(9, seed=1).batch(4, num_parallel_calls=2, deterministic=True).skip(1)
    expected = "range(0, 23) | shuffle(9, seed=1) | skip(4) | batch(4, calls=2, deterministic=True)"
    assert_rewrites(RULE, dataset, expected)


def test_skips_more_than_there_is_and_refrains_where_no_number_holds_the_count():
    numbers = tf.data.Dataset.range(23).batch(4)
    assert_rewrites(RULE, numbers.skip(2**61 - 1), f"range(0, 23) | skip({2**63 - 4}) | batch(4)", Keeps.SEQUENCE)
    assert_no_match(RULE, numbers.skip(2**61))


def test_optimize_gives_the_same_elements():
    dataset = tf.data.Dataset.range(23).map(structure).batch(4).skip(2)
    optimized = autopipe.optimize(dataset, keeps="sequence", seconds=0)
    assert RULE in optimized.plan.rules
    assert compare(dataset, optimized, Keeps.SEQUENCE) is None


def test_refuses_elements_whose_batches_may_fail():
    uneven = tf.data.Dataset.range(9).map(lambda x: tf.fill([x // 8], x))
    assert_refuses(RULE, uneven.batch(4).skip(1), "may differ, so that a batch would fail")
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    assert_refuses(RULE, ragged.batch(2).skip(1), "elements hold a RaggedTensor")


def test_refuses_where_errors_are_ignored():
    dataset = tf.data.Dataset.range(9).map(lambda x: 6 // x).batch(4).skip(1).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would drop them too")


def test_does_not_match_what_leaves_nothing_or_all_out():
    batches = tf.data.Dataset.range(23).batch(4)
    for dataset in (batches.skip(-1), batches.skip(0), batches.take(2), batches.shard(2, 1)):
        assert_no_match(RULE, dataset)
    assert_no_match(RULE, tf.data.Dataset.range(23).padded_batch(4).skip(1))
