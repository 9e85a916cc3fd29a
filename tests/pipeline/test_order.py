"""An option that frees the order reaches what its author had parallel, and nothing else."""

from dataclasses import replace

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.order import kept_in_order

Dataset = tf.data.Dataset
FREE = tf.data.Options()
FREE.deterministic = False


def uneven(x):
    """Take longest for every tenth."""
    size = tf.where(x % 10 == 0, 600, 1)
    product = tf.linalg.matmul(tf.zeros([size, size]), tf.zeros([size, size]))
    return x + tf.cast(tf.reduce_sum(product), tf.int64)


def orders(tree):
    return [node.deterministic for node in trees.walk(tree) if isinstance(node, ir.Batch | ir.Interleave | ir.Map)]


def in_order(tree):
    """Mark the last map as one that was sequential as written."""
    last = next(node for node in trees.walk(tree) if isinstance(node, ir.Map))
    marked = replace(last, in_order=True)
    return trees.fold(tree, lambda node, inputs: marked if node is last else trees.on(node, *inputs))


@pytest.mark.parametrize(
    ("written", "was_sequential", "expected"),
    [
        (Dataset.range(9).map(uneven), False, [None]),
        (Dataset.range(9).map(uneven, 2), False, [None]),
        (Dataset.range(9).map(uneven, 2), True, [True]),
        (Dataset.range(9).map(uneven, 2, deterministic=False), False, [False]),
        (Dataset.range(9).map(uneven, 2).batch(2, num_parallel_calls=2).cache(), False, [True, True]),
        (Dataset.range(9).map(uneven, 2).cache().with_options(FREE), False, [None]),
        (Dataset.range(9).map(uneven, 2).with_options(FREE), True, [True]),
        (Dataset.range(9).interleave(Dataset.range, 2, num_parallel_calls=2).map(uneven, 2), True, [True, None]),
    ],
    ids=["sequential", "parallel", "was sequential", "free", "kept", "kept free", "freed later", "one of two"],
)
def test_stages_are_ordered_that_were_so_or_of_which_something_is_kept(written, was_sequential, expected):
    tree = extract(written)
    assert orders(kept_in_order(in_order(tree) if was_sequential else tree)) == expected


@pytest.mark.parametrize("freed", [False, True], ids=["kept", "freed"])
def test_between_numbers_and_what_they_tell_apart_elements_may_come_in_any_order(freed):
    mapped = extract(Dataset.range(9).map(uneven, 2))
    numbered = ir.Enumerate(input=mapped)
    above = replace(extract(Dataset.range(9).interleave(Dataset.from_tensors, 2, num_parallel_calls=2)), input=numbered)
    kept = ir.MemoizedMap(input=above, fn=mapped.fn, source=mapped, num_parallel_calls=2)
    tree = ir.Options(input=kept, options=FREE) if freed else kept
    found = [node for node in trees.walk(kept_in_order(tree)) if isinstance(node, ir.Interleave | ir.Map)]
    assert [node.deterministic for node in found] == [None, True]


def test_what_is_not_parallel_is_left_alone():
    tree = extract(Dataset.range(9).map(uneven).batch(2))
    assert kept_in_order(tree) is tree


@pytest.mark.usefixtures("as_fast")
def test_an_optimized_pipeline_has_the_order_of_the_written_one_whatever_options_follow_it():
    written = Dataset.range(60).map(uneven)
    optimized = autopipe.optimize(written, keeps="sequence", ram_budget=0)
    assert any(node.num_parallel_calls for node in trees.walk(optimized.tree) if isinstance(node, ir.Map))
    pairs = Dataset.zip((optimized, optimized)).with_options(FREE)
    assert list(optimized.with_options(FREE).as_numpy_iterator()) == list(range(60))
    assert [(int(a), int(b)) for a, b in pairs] == [(each, each) for each in range(60)]
    assert orders(optimized.tree) == [None]


@pytest.mark.usefixtures("as_fast")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("late", [False, True], ids=["before the second", "after the second"])
def test_so_has_one_that_is_optimized_again_with_options_before_or_after(late):
    once = autopipe.optimize(Dataset.range(60).map(uneven), ram_budget=0)
    assert any(node.num_parallel_calls for node in trees.walk(once.tree) if isinstance(node, ir.Map))
    pairs = Dataset.zip((once, Dataset.range(60)))
    twice = autopipe.optimize(pairs if late else pairs.with_options(FREE), ram_budget=0, keeps="sequence")
    read = twice.with_options(FREE) if late else twice
    assert [(int(a), int(b)) for a, b in read] == [(each, each) for each in range(60)]
