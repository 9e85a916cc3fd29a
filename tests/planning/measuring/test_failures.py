"""What cannot be made is passed over and counted, and a pipeline that makes nothing any more comes to an end."""

import pytest
import tensorflow as tf

from autopipe.planning.measuring.failures import Failures, skipping_failures

Dataset = tf.data.Dataset


def failing_where(condition):
    return lambda x: tf.debugging.check_numerics(tf.where(condition(x), float("nan"), tf.cast(x, tf.float32)), "bad")


@pytest.mark.parametrize(
    ("dataset", "passed", "failed"),
    [
        (Dataset.range(9), 9, 0),
        (Dataset.range(9).map(failing_where(lambda x: x % 3 == 0)), 6, 3),
        (Dataset.range(9).map(failing_where(lambda x: x >= 0)), 0, 9),
        (Dataset.range(1_000).map(failing_where(lambda x: x >= 50)), 50, 100),
        # Ninety-nine in a row are not a hundred.
        (Dataset.range(1_000).map(failing_where(lambda x: x % 100 != 0)), 10, 990),
    ],
)
def test_elements_that_can_be_made_pass_and_the_others_are_counted(dataset, passed, failed):
    failures = Failures()
    assert len(list(skipping_failures(iter(dataset), failures))) == passed
    assert failures.count == failed
    assert failures.first == ("bad : Tensor had NaN values." if failed else "")
