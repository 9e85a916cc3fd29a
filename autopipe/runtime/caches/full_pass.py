"""How many elements of an endless pipeline show that its caches are whole, though its end is never reached."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.disk_caches import caches_on_disk
from autopipe.pipeline.signature import signature

__all__ = ["may_give_nothing_for_ever", "taken_in_a_pass"]


def may_give_nothing_for_ever(tree: ir.Node) -> bool:
    """Return whether a further ``next()`` may never return.

    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9).repeat()
    >>> few = numbers.enumerate().filter(lambda place, number: place < 20)
    >>> [may_give_nothing_for_ever(extract(dataset)) for dataset in (numbers, numbers.take(20), few)]
    [False, False, True]
    """
    endless = any(signature(node).is_infinite for node in trees.walk(tree))
    return endless and signature(tree).is_unknown


def taken_in_a_pass(tree: ir.Node, in_memory: Sequence[int], on_disk: Sequence[int] = ()) -> int | None:
    """Return how many elements show that caches hold all there are; ``None`` if that is not known.

    It is one more than one pass over the caches gives: if an element had failed, and so were missing, the consumer
    would have got its error before that many elements.

    Args:
        tree: a pipeline, repeated without end.
        in_memory: how many elements its memory caches hold, in the order they are built.
        on_disk: how many its disk caches hold, in the order of the tree.

    >>> from autopipe.pipeline.extract import extract
    >>> def of(after):
    ...     return taken_in_a_pass(extract(tf.data.Dataset.range(10).cache().repeat().apply(after)), [10])
    >>> of(lambda numbers: numbers.shuffle(4).batch(4)), of(lambda numbers: numbers.batch(4, drop_remainder=True))
    (4, 3)
    >>> of(lambda numbers: numbers.filter(lambda x: x > 3)) is None
    True
    """
    caches = (*memory_caches(tree), *caches_on_disk(tree))
    counts = {id(cache): count for cache, count in zip(caches, (*in_memory, *on_disk), strict=True)}
    unknown: list[ir.Zip] = []

    def zipped(node: ir.Zip, made: ir.Node) -> ir.Node:
        """Return as many pairs as the longest side has elements: a pass over a shorter one says nothing about it."""
        sides = [signature(read) for read, side in zip(made.inputs, node.inputs, strict=True) if _holds(side, counts)]
        if not all(side.cardinality >= 0 for side in sides):
            unknown.append(node)
        return _of_so_many(made, max((side.cardinality for side in sides), default=0)) if sides else made

    def once(node: ir.Node, inputs: list[ir.Node]) -> ir.Node:
        if isinstance(node, ir.Cache) and id(node) in counts:
            return _of_so_many(node.input, counts[id(node)])
        if isinstance(node, ir.Repeat) and node.is_infinite:
            return inputs[0]
        made = trees.on(node, *inputs)
        return zipped(node, made) if isinstance(node, ir.Zip) else made

    number = signature(trees.fold(tree, once)).cardinality
    return number + 1 if number > 0 and not unknown else None


def _holds(tree: ir.Node, counts: Collection[int]) -> bool:
    return any(id(node) in counts for node in trees.walk(tree))


def _of_so_many(like: ir.Node, count: int) -> ir.Node:
    return ir.Source(dataset=build(like).take(0).apply(tf.data.experimental.assert_cardinality(count)))
