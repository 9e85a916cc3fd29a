"""How much of a pipeline without end shows that what its caches hold is whole."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.signature import signature

__all__ = ["taken_in_a_pass"]


def taken_in_a_pass(tree: ir.Node, held: Sequence[int]) -> int | None:
    """Return how many elements show that caches hold all there are; ``None`` if that is not known.

    It is one more than a pass over what they hold gives. Were an element missing from them, its error would have come
    to the consumer before it had so many.

    Args:
        tree: a pipeline, repeated without end.
        held: how many elements its memory caches hold, in the order they are built.

    >>> from autopipe.pipeline.extract import extract
    >>> def of(after):
    ...     return taken_in_a_pass(extract(tf.data.Dataset.range(10).cache().repeat().apply(after)), [10])
    >>> of(lambda numbers: numbers.shuffle(4).batch(4)), of(lambda numbers: numbers.batch(4, drop_remainder=True))
    (4, 3)
    >>> of(lambda numbers: numbers.filter(lambda x: x > 3)) is None
    True
    """
    counts = {id(cache): count for cache, count in zip(memory_caches(tree), held, strict=True)}

    def once(node: ir.Node, inputs: list[ir.Node]) -> ir.Node:
        if id(node) in counts:
            return _of_so_many(node, counts[id(node)])
        if isinstance(node, ir.Repeat) and node.count < 0:
            return inputs[0]
        return trees.on(node, *inputs)

    number = signature(trees.fold(tree, once)).cardinality
    return number + 1 if number > 0 else None


def _of_so_many(cache: ir.Node, count: int) -> ir.Node:
    return ir.Source(dataset=build(cache).take(0).apply(tf.data.experimental.assert_cardinality(count)))
