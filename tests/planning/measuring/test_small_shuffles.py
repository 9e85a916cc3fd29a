"""A pipeline is measured at its pace, not at that of a buffer that fills."""

import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.small_shuffles import with_small_shuffles

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(100)


def buffers(dataset):
    small = with_small_shuffles(extract(dataset))
    return [node.buffer_size for node in trees.walk(small) if isinstance(node, ir.Shuffle)]


@pytest.mark.parametrize(
    ("dataset", "sizes"),
    [
        (NUMBERS.shuffle(100).batch(2), [8]),
        (NUMBERS.shuffle(3), [3]),
        (NUMBERS.shuffle(tf.data.UNKNOWN_CARDINALITY), [8]),
        (NUMBERS.shuffle(50).map(lambda x: x + 1).shuffle(1_000).repeat(), [8, 8]),
        (Dataset.zip(NUMBERS.shuffle(50), NUMBERS.shuffle(4)), [8, 4]),
        (NUMBERS.shuffle(50).take(-1), [8]),
        (NUMBERS.take(9).shuffle(50), [8]),
        # Filling the buffer is most of what these few cost.
        (NUMBERS.shuffle(50).take(9).shuffle(20), [20, 50]),
    ],
)
def test_shuffles_hold_few_elements_but_where_only_some_of_them_are_taken(dataset, sizes):
    assert buffers(dataset) == sizes


def test_what_two_branches_read_stays_one_stage():
    shared = NUMBERS.shuffle(50).cache()
    small = with_small_shuffles(extract(Dataset.zip(shared, shared)))
    assert len({id(node) for node in trees.walk(small) if isinstance(node, ir.Cache)}) == 1


def test_nothing_else_is_changed():
    tree = extract(NUMBERS.map(lambda x: x + 1).shuffle(8).batch(7).prefetch(2))
    assert with_small_shuffles(tree) == tree
