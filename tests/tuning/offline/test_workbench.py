"""What is compared is what goes on once caches are full."""

import tensorflow as tf
from choosing import choices

from autopipe.tuning.consumer import StandIn
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
