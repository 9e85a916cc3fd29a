"""What is compared is what goes on once caches are full."""

import itertools

import pytest
import tensorflow as tf
from choosing import choices

from autopipe.planning.costs.consumer import StandIn
from autopipe.planning.measuring import whole_epochs
from autopipe.tuning.offline.workbench import LocalWorkbench


def test_caches_are_filled_before_the_first_turn():
    calls = []
    counted = tf.data.Dataset.range(8).map(
        lambda x: tf.ensure_shape(tf.numpy_function(lambda y: calls.append(y) or y, [x], tf.int64), [])
    )
    found = choices(counted.cache().batch(2))
    bench = LocalWorkbench(found, StandIn(0.0), 0.05)
    assert bench.steps_per_second(found.given) > 0
    assert len(calls) == 8


@pytest.mark.timeout(60)
def test_caches_of_an_epoch_that_does_not_end_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(whole_epochs, "_LONGEST_SECONDS", 0.2)
    endless = tf.data.Dataset.from_generator(itertools.count, output_signature=tf.TensorSpec((), tf.int64))
    found = choices(tf.data.Dataset.zip((tf.data.Dataset.range(8).cache().repeat(), endless)))
    assert LocalWorkbench(found, StandIn(0.0), 0.05).steps_per_second(found.given) > 0
