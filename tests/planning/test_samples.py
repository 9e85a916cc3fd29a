"""Elements that are no plain tensors are not measured, and pass as they are."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.planning.samples import bytes_of, of_one_shape
from autopipe.rules import MeasurementError

Dataset = tf.data.Dataset


def heavy(x):
    return tf.reduce_max(tf.linalg.matmul(tf.fill([100, 100], tf.cast(x, tf.float32)), tf.ones([100, 100])))


UNUSUAL = {
    "None": lambda x: (heavy(x), None),
    "a dataset": lambda x: (heavy(x), Dataset.range(x)),
    "an optional": lambda x: tf.experimental.Optional.from_value(heavy(x)),
    "a tensor array": lambda x: tf.TensorArray(tf.float32, size=2).unstack(tf.stack([heavy(x), heavy(x)])),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_what_is_no_tensor_has_no_size_and_is_optimized_all_the_same(kind):
    dataset = Dataset.range(12).map(UNUSUAL[kind])
    with pytest.raises(MeasurementError, match="hold .*, which is no plain tensor"):
        bytes_of(next(iter(dataset)))
    assert sum(1 for _ in autopipe.optimize(dataset)) == 12


def test_batches_with_none_in_them_are_the_same():
    dataset = Dataset.range(9).map(lambda x: (x * 2, None)).batch(3)
    ours, theirs = ([(x.numpy().tolist(), y) for x, y in each] for each in (autopipe.optimize(dataset), dataset))
    assert ours == theirs


def test_a_sample_is_of_the_most_common_shape():
    batches = list(Dataset.range(10).batch(4))
    assert [batch.shape[0] for batch in of_one_shape(batches)] == [4, 4]
