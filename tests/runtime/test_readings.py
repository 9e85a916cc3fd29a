"""A reading knows the pipeline it runs to the last stage, with what was put after the optimized dataset."""

import pytest
import tensorflow as tf
from retuning import listening

import autopipe
from autopipe.pipeline.text import one_line


def autotune(enabled):
    options = tf.data.Options()
    options.autotune.enabled = enabled
    return options


def optimized(options):
    return autopipe.optimize(tf.data.Dataset.range(8).map(lambda x: x * 2).with_options(options), seconds=0)


@pytest.mark.parametrize(
    ("make", "counts"),
    [
        (lambda: optimized(tf.data.Options()), True),
        (lambda: optimized(autotune(False)), False),
        (lambda: optimized(tf.data.Options()).batch(2).with_options(autotune(False)), False),
        (lambda: optimized(autotune(False)).batch(2).with_options(autotune(True)), True),
        (lambda: optimized(autotune(False)).batch(2), False),
    ],
)
def test_stages_are_counted_unless_the_last_to_say_so_turned_autotune_off(make, counts):
    with listening() as readings:
        assert len(list(make())) > 0
    assert [reading.counts_its_stages for reading in readings] == [counts]


def test_the_tree_goes_to_the_last_stage_after_the_dataset():
    with listening() as readings:
        list(optimized(tf.data.Options()).batch(2).repeat(3))
    assert one_line(readings[0].tree).endswith("| batch(2) | repeat(3)")
