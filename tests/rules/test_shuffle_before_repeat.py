import pytest
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps, catalogue
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

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


@pytest.mark.parametrize("option", ["shuffle_and_repeat_fusion", "apply_default_optimizations"])
def test_refuses_where_each_epoch_would_wait_for_the_buffer_to_fill(option):
    options = tf.data.Options()
    setattr(options.experimental_optimization, option, False)
    dataset = tf.data.Dataset.range(9).repeat(3).shuffle(5).with_options(options)
    assert_refuses(RULE, dataset, "an option keeps TensorFlow from filling the buffer for the next epoch")


def test_a_map_between_goes_after_both():
    repeated = tf.data.Dataset.range(9).repeat(3).map(lambda x: x * 2).shuffle(5)
    both = [rule for rule in catalogue() if rule.name in {RULE, "shuffle_before_map"}]
    done = rewrite(extract(repeated), both, keeps=Keeps.TRAINING, measurements=Answers())
    assert one_line(done.after) == "range(0, 9) | shuffle(5) | repeat(3) | map(<lambda>)"
    mapped = tf.data.Dataset.range(9).map(lambda x: x * 2).repeat(3).shuffle(5)
    done = rewrite(extract(mapped), both, keeps=Keeps.TRAINING, measurements=Answers())
    assert one_line(done.after) == "range(0, 9) | shuffle(5) | repeat(3) | map(<lambda>)"


def test_a_shuffle_that_keeps_its_order_is_left_alone():
    assert_no_match(RULE, tf.data.Dataset.range(9).repeat(3).shuffle(5, reshuffle_each_iteration=False))


def test_does_not_match_the_right_order():
    assert_no_match(RULE, tf.data.Dataset.range(9).shuffle(5).repeat(3))
