"""Where TensorFlow makes one stage of two, which does not all that the two do."""

from __future__ import annotations

from typing import Any

from autopipe.pipeline import ir, trees
from autopipe.pipeline.seeds import is_reseeded

__all__ = ["maps_batched_at_once", "shuffles_repeated_at_once"]


def maps_batched_at_once(tree: ir.Node) -> int:
    """Return how many maps whose elements may differ in shape TensorFlow runs as one with the batch after them.

    The two as one write each element into the batch as it is made. So an element of another shape fails there, also
    in an incomplete batch that would have been dropped.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> ranges = tf.data.Dataset.range(4).map(tf.range)
    >>> [maps_batched_at_once(extract(each.batch(3))) for each in (ranges, ranges.take(2), ranges.map(tf.size))]
    [1, 0, 0]
    """
    return sum(
        isinstance(node, ir.Batch) and _may_differ(trees.last_stage(node.input))
        for node in dict.fromkeys(trees.walk(tree))
    )


def shuffles_repeated_at_once(tree: ir.Node) -> set[Any]:
    """Return which shuffles with a seed TensorFlow runs as one with the counted repetition after them.

    The two as one draw an order for each repetition; a repetition by itself draws one more at its end. So the next
    iterator begins with another order.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> shuffled = tf.data.Dataset.range(4).shuffle(4, seed=1)
    >>> [len(shuffles_repeated_at_once(extract(each.repeat(2)))) for each in (shuffled, shuffled.batch(2))]
    [1, 0]
    """
    repeats = (node for node in trees.walk(tree) if isinstance(node, ir.Repeat) and node.count >= 0)
    return {node.input.origin for node in repeats if is_reseeded(node.input)}


def _may_differ(node: ir.Node) -> bool:
    import tensorflow as tf

    if not isinstance(node, ir.Map):
        return False
    parts = tf.nest.flatten(node.fn.output_spec)
    return not all(isinstance(part, tf.TensorSpec) and part.shape.is_fully_defined() for part in parts)
