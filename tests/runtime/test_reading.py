"""A reading knows the pipeline it runs to the last stage, with what was put after the optimized dataset."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.text import one_line
from autopipe.runtime.reading import observe, stop_observing


class Listener:
    def reading_started(self, reading):
        self.reading = reading


@pytest.fixture
def listener():
    made = Listener()
    observe(made)
    yield made
    stop_observing(made)


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
def test_stages_are_counted_unless_the_last_to_say_so_turned_autotune_off(make, counts, listener):
    assert len(list(make())) > 0
    assert listener.reading.counts_its_stages is counts


def test_the_tree_goes_to_the_last_stage_after_the_dataset(listener):
    list(optimized(tf.data.Options()).batch(2).repeat(3))
    assert one_line(listener.reading.tree).endswith("| batch(2) | repeat(3)")
