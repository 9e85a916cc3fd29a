import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.pipeline.positions import below_positions, columns
from autopipe.pipeline.text import one_line

Dataset = tf.data.Dataset


def looked_up(dataset):
    found = columns(extract(dataset))
    count = int(dataset.cardinality())
    return None if found is None else [column(tf.range(count, dtype=tf.int64)).numpy().tolist() for column in found]


def test_columns_give_the_elements_by_position():
    rows = Dataset.from_tensor_slices((np.arange(9), [str(number) for number in range(9)]))
    for dataset in (
        rows,
        rows.skip(2),
        rows.take(4).skip(1),
        rows.skip(3).take(2).skip(1),
        rows.take(-1),
        rows.skip(99),
    ):
        elements = list(dataset.as_numpy_iterator())
        assert looked_up(dataset) == [[number for number, _ in elements], [text for _, text in elements]]


def test_columns_of_ranges():
    for dataset in (
        Dataset.range(5),
        Dataset.range(9, 2, -3),
        Dataset.range(4, 40, 5).skip(2).take(3),
        Dataset.range(0),
    ):
        assert looked_up(dataset) == [list(dataset.as_numpy_iterator())]


@pytest.mark.parametrize("kind", [tf.int32, tf.uint8, tf.float32, tf.float64])
def test_columns_of_ranges_are_of_their_type(kind):
    numbers = tf.data.Dataset.range(2, 9, 3, output_type=kind)
    (column,) = columns(extract(numbers))
    assert column(tf.constant([0, 1, 2], tf.int64)).dtype == kind
    assert column(tf.constant([0, 1, 2], tf.int64)).numpy().tolist() == list(numbers.as_numpy_iterator())


def test_columns_of_what_is_zipped_are_those_of_each_up_to_the_shortest():
    zipped = Dataset.zip({"b": Dataset.range(5).skip(1), "a": Dataset.zip((Dataset.range(9), Dataset.range(7, 20)))})
    assert looked_up(zipped) == [[0, 1, 2, 3], [7, 8, 9, 10], [1, 2, 3, 4]]
    assert looked_up(Dataset.zip((Dataset.range(5), Dataset.range(5).map(tf.square)))) is None


def test_other_elements_have_no_columns():
    rows = Dataset.from_tensor_slices(np.arange(9))
    assert looked_up(rows.map(tf.abs)) is None
    assert looked_up(rows.shuffle(3)) is None
    assert looked_up(rows.shard(2, 0)) is None
    assert looked_up(Dataset.from_tensor_slices(tf.ragged.constant([[1], []]))) is None
    assert looked_up(Dataset.from_tensors(1)) is None


def test_stages_that_look_at_elements_end_the_search():
    dataset = Dataset.range(9).map(tf.abs).repeat(2).shuffle(3).shard(2, 0).take(3).skip(1).prefetch(1)
    assert one_line(below_positions(extract(dataset))) == "range(0, 9) | map(abs)"
