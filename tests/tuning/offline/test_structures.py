"""The structures to choose among are pipelines of their own."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.tuning.offline.structures import AS_WRITTEN, OPTIMIZED, structures


@pytest.mark.usefixtures("as_fast")
def test_other_structures_are_those_that_differ():
    written = tf.data.Dataset.range(640).map(lambda x: tf.cast(x, tf.float32) * 2).batch(16)
    dataset = autopipe.optimize(written)
    found = structures(dataset)
    assert found[OPTIMIZED] is dataset
    assert found[AS_WRITTEN].plan.rules == ()
    trees = [each.tree for each in found.values()]
    assert all(tree != other for place, tree in enumerate(trees) for other in trees[:place])
