"""Tree -> Dataset, carrying every argument.

Only public TensorFlow is used here: ``tf.raw_ops`` where a transformation holds a traced function or a pair of
seeds, which the methods of ``tf.data.Dataset`` would trace or draw anew, and those methods for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.builders import arguments_of, build_stage, from_variant
from autopipe.pipeline.extract import element_shapes, element_types

__all__ = ["build", "memory_caches", "only_cache"]


def build(node: ir.Node, memories: Iterator[Any] | None = None) -> Any:
    """Make the dataset that a tree describes. A node that is used twice becomes one dataset, with one seed generator.

    Args:
        node: the last transformation.
        memories: the resource that each memory cache keeps its elements in, in the order of :func:`memory_caches`. By
            default each has one of its own, which goes with the dataset.

    Returns:
        A ``tf.data.Dataset``. The caller keeps ``node`` alive as long as the dataset: it holds what the
        functions capture.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(5).map(lambda x: x * x).batch(2))
    >>> [batch.tolist() for batch in build(tree).as_numpy_iterator()]
    [[0, 1], [4, 9], [16]]
    """

    def built(each: ir.Node, inputs: list[Any]) -> Any:
        if memories is not None and trees.is_memory_cache(each):
            return _cache_in(next(memories), each, *inputs)
        return build_stage(each, *inputs)

    return trees.fold(node, built)


def memory_caches(node: ir.Node) -> list[ir.Cache]:
    """Return the memory caches of a pipeline in the order they are built; one that is used twice comes once."""
    return [each for each in trees.inputs_first(node) if trees.is_memory_cache(each)]


def only_cache(tree: ir.Node) -> ir.Cache | None:
    """Return the memory cache of a pipeline; ``None`` if it has none or several, or reads it at several places."""
    match memory_caches(tree):
        case [cache] if sum(each == cache for each in trees.walk(tree)) == 1:
            return cache
    return None


def _cache_in(memory: Any, node: ir.Node, source: Any) -> Any:
    variant = tf.raw_ops.CacheDatasetV2(
        input_dataset=tf.data.experimental.to_variant(source),
        filename="",
        cache=memory,
        **arguments_of(node, element_types(source), element_shapes(source)),
    )
    return from_variant(variant, source.element_spec)
