import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from sides import apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "shuffle_before_repeat"


def test_shuffles_each_epoch_by_itself():
    dataset = tf.data.Dataset.range(9).repeat(3).shuffle(5)
    done = assert_rewrites(RULE, dataset, "range(0, 9) | shuffle(5) | repeat(3)")
    assert done.steps[0].keeps is Keeps.TRAINING


def test_every_element_comes_once_per_epoch_afterwards():
    done = apply(RULE, tf.data.Dataset.range(9).repeat(3).shuffle(20))
    order = [int(x) for x in build(done.after)]
    epochs = [order[start : start + 9] for start in (0, 9, 18)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(9))] * 3
    assert len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize("keeps", [Keeps.SEQUENCE, Keeps.ELEMENTS])
def test_refuses_where_epochs_must_stay_as_mixed_as_they_were(keeps):
    dataset = tf.data.Dataset.range(9).repeat(3).shuffle(5)
    assert_refuses(RULE, dataset, f'it keeps training only, and keeps="{keeps}" was asked for', keeps)


def test_refuses_a_seeded_shuffle():
    dataset = tf.data.Dataset.range(9).repeat(3).shuffle(5, seed=1)
    assert_refuses(RULE, dataset, "shuffle(5, seed=1) has a seed")


def test_a_shuffle_that_keeps_its_order_is_left_alone():
    assert_no_match(RULE, tf.data.Dataset.range(9).repeat(3).shuffle(5, reshuffle_each_iteration=False))


def test_does_not_match_the_right_order():
    assert_no_match(RULE, tf.data.Dataset.range(9).shuffle(5).repeat(3))
