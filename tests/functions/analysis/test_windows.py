import tensorflow as tf

from autopipe.functions.analysis.windows import BatchedWindow, batched_windows
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset


def read(body):
    pairs = Dataset.from_tensor_slices((tf.range(9), tf.range(9.0))).window(3, drop_remainder=True)
    return batched_windows(extract(pairs.flat_map(body)).fn)


def test_the_components_come_in_the_order_of_the_result():
    found = read(lambda x, y: Dataset.zip((y.batch(3, drop_remainder=True), x.batch(2, num_parallel_calls=2))))
    assert found == (BatchedWindow(1, 3, whole=True), BatchedWindow(0, 2, whole=False))
    assert read(lambda x, y: y.batch(3)) == (BatchedWindow(1, 3, whole=False),)


def test_a_size_that_is_computed_is_not_known():
    assert read(lambda x, y: x.batch(tf.random.uniform((), 1, 3, tf.int64))) is None
    assert read(lambda x, y: x.batch(x.cardinality())) is None


def test_anything_else_done_with_a_window_is_seen():
    assert read(lambda x, y: x.batch(3).repeat(2)) is None
    assert read(lambda x, y: x.batch(3).batch(1)) is None
    assert read(lambda x, y: x.take(2).batch(3)) is None
    assert read(lambda x, y: x.padded_batch(3)) is None
    assert read(lambda x, y: Dataset.zip((x, y)).batch(3)) is None
    assert read(lambda x, y: Dataset.zip((x.batch(3), Dataset.range(1)))) is None
    assert read(lambda x, y: Dataset.from_tensors(1).batch(3)) is None
