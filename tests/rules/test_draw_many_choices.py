import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from sides import apply, assert_no_match, assert_rewrites

Dataset = tf.data.Dataset
RULE = "draw_many_choices"
AFTER = "choose_from(2)[random_numbers | batch(2) | map(draw 1,024 choices) | unbatch(), range(0, 50), range(100, 150)]"


def sampled(**options):
    return Dataset.sample_from_datasets([Dataset.range(50), Dataset.range(100, 150)], **options)


@pytest.mark.parametrize("weights", [None, [0.5, 0.5], np.array([0.1, 0.9])], ids=["even", "list", "array"])
def test_choices_are_drawn_many_at_once(weights):
    assert_rewrites(RULE, sampled(weights=weights), AFTER, Keeps.TRAINING)


def test_each_dataset_is_read_in_its_order_to_its_end():
    after = apply(RULE, sampled(weights=[0.3, 0.7]), Keeps.TRAINING).after
    for _epoch in range(2):
        read = [int(x) for x in build(after)]
        assert [x for x in read if x < 100] == list(range(50))
        assert [x for x in read if x >= 100] == list(range(100, 150))


def test_weights_stay_what_they_are():
    parts = [Dataset.from_tensors(number).repeat() for number in range(4)]
    weights = [0.1, 0.0, 0.6, 0.3]
    dataset = autopipe.optimize(Dataset.sample_from_datasets(parts, weights).batch(1000), rules=[RULE])
    assert dataset.plan.rules == (RULE,)
    counts = sum(np.bincount(batch, minlength=4) for batch in dataset.take(20))
    np.testing.assert_allclose(counts / 20_000, weights, atol=0.02)


def test_choices_do_not_repeat_from_one_call_to_the_next():
    parts = [Dataset.from_tensors(number).repeat() for number in range(2)]
    dataset = autopipe.optimize(Dataset.sample_from_datasets(parts).batch(1024), rules=[RULE])
    first, second = (batch.numpy().tolist() for batch in dataset.take(2))
    assert first != second


def test_choices_from_a_seed_stay_those_of_the_seed():
    assert_no_match(RULE, sampled(seed=1))
    assert apply(RULE, sampled(), Keeps.ELEMENTS).steps == ()


def test_does_not_match_what_chooses_in_another_way():
    assert_no_match(RULE, sampled(weights=Dataset.from_tensors([0.3, 0.7]).repeat()))
    assert_no_match(RULE, sampled(rerandomize_each_iteration=True))
    chosen = Dataset.random().batch(2).map(lambda pair: tf.cast(pair[0] & 1, tf.int64))
    assert_no_match(RULE, Dataset.choose_from_datasets([Dataset.range(5), Dataset.range(5)], chosen))
