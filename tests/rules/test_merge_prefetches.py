import pytest
import tensorflow as tf

import autopipe
from autopipe.rules import Keeps
from sides import assert_no_match, assert_rewrites

RULE = "merge_prefetches"
AUTOTUNE = tf.data.AUTOTUNE


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [(2, 5, "5"), (5, 2, "5"), (0, 3, "3"), (AUTOTUNE, 2, "AUTOTUNE"), (2, AUTOTUNE, "AUTOTUNE")],
)
def test_keeps_the_larger_buffer(first, second, merged, keeps):
    dataset = tf.data.Dataset.range(9).prefetch(first).prefetch(second).batch(2)
    assert_rewrites(RULE, dataset, f"range(0, 9) | prefetch({merged}) | batch(2)", keeps)


def test_merges_as_many_as_there_are_and_keeps_the_last_name():
    dataset = tf.data.Dataset.range(9).prefetch(1, name="a").prefetch(3, name="b").prefetch(2, name="c")
    assert_rewrites(RULE, dataset, "range(0, 9) | prefetch(3) as 'c'", Keeps.SEQUENCE)


def test_elements_of_any_structure_pass_through():
    def many(x):
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(x), [x])
        return {"ragged": ragged, "sparse": tf.sparse.from_dense([x, 0]), "text": tf.strings.as_string(x)}

    dataset = tf.data.Dataset.range(4).repeat().map(many).prefetch(2).prefetch(2).take(9)
    assert_rewrites(RULE, dataset, "range(0, 4) | repeat() | map(many) | prefetch(2) | take(9)", Keeps.SEQUENCE)


def test_optimize_gives_the_same_elements():
    dataset = autopipe.optimize(tf.data.Dataset.range(9).prefetch(2).prefetch(AUTOTUNE), seconds=0)
    assert dataset.plan.rules == ("merge_prefetches",)
    assert [int(x) for x in dataset] == list(range(9))


def test_does_not_match_a_single_or_a_parted_prefetch():
    assert_no_match(RULE, tf.data.Dataset.range(9).prefetch(2))
    assert_no_match(RULE, tf.data.Dataset.range(9).prefetch(2).batch(2).prefetch(2))
