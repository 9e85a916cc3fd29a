"""An option that frees the order reaches what its author had parallel, and nothing else."""

from dataclasses import replace

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.order import as_ordered_as

Dataset = tf.data.Dataset
FREE = tf.data.Options()
FREE.deterministic = False


def uneven(x):
    """Take longest for every tenth."""
    size = tf.where(x % 10 == 0, 600, 1)
    product = tf.linalg.matmul(tf.zeros([size, size]), tf.zeros([size, size]))
    return x + tf.cast(tf.reduce_sum(product), tf.int64)


def parallel(tree, calls=4):
    def changed(node):
        return replace(node, num_parallel_calls=calls) if isinstance(node, ir.Map | ir.Interleave) else node

    return trees.transform(tree, changed)


def orders(tree):
    return [node.deterministic for node in trees.walk(tree) if isinstance(node, ir.Map | ir.Interleave)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (Dataset.range(9).map(uneven), [True]),
        (Dataset.range(9).map(uneven, 2), [None]),
        (Dataset.range(9).map(uneven, 2, deterministic=False), [False]),
        (Dataset.range(9).map(uneven, 2).cache(), [True]),
        (Dataset.range(9).map(uneven).with_options(FREE), [None]),
        (Dataset.range(9).interleave(lambda x: Dataset.range(x), 2).map(uneven, 2), [None, True]),
    ],
    ids=["sequential", "parallel", "free", "kept", "freed before", "one of two"],
)
def test_stages_are_ordered_that_were_so_or_of_which_something_is_kept(written, expected):
    tree = extract(written)
    assert orders(as_ordered_as(parallel(tree), tree)) == expected


def test_what_is_not_parallel_is_left_alone():
    tree = extract(Dataset.range(9).map(uneven).batch(2))
    assert as_ordered_as(tree, tree) is tree


@pytest.mark.usefixtures("as_fast")
def test_an_optimized_pipeline_has_the_order_of_the_written_one_whatever_options_follow_it():
    written = Dataset.range(60).map(uneven)
    optimized = autopipe.optimize(written, keeps="sequence", ram_budget=0)
    assert any(node.num_parallel_calls for node in trees.walk(optimized.tree) if isinstance(node, ir.Map))
    pairs = Dataset.zip((optimized, optimized)).with_options(FREE)
    assert list(optimized.with_options(FREE).as_numpy_iterator()) == list(range(60))
    assert [(int(a), int(b)) for a, b in pairs] == [(each, each) for each in range(60)]
    assert orders(optimized.tree) == [None]
