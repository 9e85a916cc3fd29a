import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.batched.mask import mask
from autopipe.functions.batched.vectorize import NotVectorizableError
from autopipe.pipeline.extract import extract


def masked(dataset, predicate, *columns):
    fn = mask(extract(dataset.filter(predicate)).predicate)
    return [column.numpy().tolist() for column in fn.concrete(*columns)]


def test_rows_of_every_column_are_left_out_together():
    rows = {"text": np.array(["a", "b", "c"]), "numbers": np.arange(6).reshape(3, 2)}
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    kept = masked(dataset, lambda row: row["text"] != "b", tf.constant(rows["numbers"]), tf.constant(rows["text"]))
    assert kept == [[[0, 1], [4, 5]], [b"a", b"c"]]


def test_a_predicate_that_looks_at_nothing():
    numbers, three = tf.data.Dataset.range(3), tf.range(3, dtype=tf.int64)
    assert masked(numbers, lambda x: tf.constant(False), three) == [[]]
    assert masked(numbers, lambda x: tf.constant(True), three) == [[0, 1, 2]]
    assert masked(numbers, lambda x: x > 0, three[:0]) == [[]]


def test_what_a_predicate_captures_stays_live():
    bound = tf.constant(np.arange(200))
    numbers = tf.data.Dataset.range(3)
    assert masked(numbers, lambda x: bound[-1] - 198 < x, tf.range(3, dtype=tf.int64)) == [[2]]


def test_a_variable_is_not_read_once_for_a_batch():
    variable = tf.Variable(1, dtype=tf.int64)
    with pytest.raises(NotVectorizableError, match="reads a variable"):
        mask(extract(tf.data.Dataset.range(3).filter(lambda x: x > variable)).predicate)
