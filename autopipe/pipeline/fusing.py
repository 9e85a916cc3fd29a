"""Where TensorFlow fuses two stages into one that does not do all that the two do."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autopipe.pipeline import ir, trees
from autopipe.pipeline.failing import who_may_fail
from autopipe.pipeline.seeds import is_reseeded
from autopipe.pipeline.signature import signature
from autopipe.pipeline.tensorflow_rewrites import does_by_itself

__all__ = ["what_fuses_otherwise"]

_BATCHED_AT_ONCE = (
    "a map would come right before a batch: TensorFlow then makes one of the two, which fails on elements of different "
    "shapes even in an incomplete batch, which is dropped now"
)
_LOST_AT_ONCE = (
    "a map would come right before a batch, or no longer: TensorFlow makes one of the two there, which loses the whole "
    "batch where an element fails, so that ignore_errors() would leave out others"
)
_REPEATED_AT_ONCE = (
    "a shuffle would come right before a repeat, or no longer: TensorFlow makes one of the two there, which draws one "
    "order fewer from a seed, so that the next epoch would have another order"
)
_PARTED = (
    "a map would come between a shuffle and a repeat: TensorFlow makes one of the two, which fills the buffer for the "
    "next epoch during this one, and each epoch would wait for it to fill"
)


def what_fuses_otherwise(tree: ir.Node, *, before: ir.Node) -> str | None:
    """Return which fusion by TensorFlow a rewrite adds, or prevents, with a visible effect; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> ranges = tf.data.Dataset.range(4).map(tf.range)
    >>> parted, next_to_it = (extract(each.batch(3, drop_remainder=True)) for each in (ranges.prefetch(1), ranges))
    >>> str(what_fuses_otherwise(next_to_it, before=parted)).split(":")[0]
    'a map would come right before a batch'
    """
    if _maps_batched_at_once(tree) > _maps_batched_at_once(before):
        return _BATCHED_AT_ONCE
    if _neighbours_lost_at_once(tree) != _neighbours_lost_at_once(before):
        return _LOST_AT_ONCE
    if _shuffles_repeated_at_once(tree) != _shuffles_repeated_at_once(before):
        return _REPEATED_AT_ONCE
    return _PARTED if _shuffles_parted(tree) > _shuffles_parted(before) else None


def _maps_batched_at_once(tree: ir.Node) -> int:
    """Return how many maps TensorFlow fuses with the batch after them, so that they may fail where the two do not.

    The fused stage writes each element into the batch as it is made. So an element of another shape also fails in an
    incomplete batch, which would otherwise be dropped unseen.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> ranges = tf.data.Dataset.range(4).map(tf.range)
    >>> dropping = (each.batch(3, drop_remainder=True) for each in (ranges, ranges.take(2), ranges.map(tf.size)))
    >>> [_maps_batched_at_once(extract(each)) for each in (*dropping, ranges.batch(3))]
    [1, 0, 0, 0]
    """
    batches = (node for node in dict.fromkeys(trees.walk(tree)) if isinstance(node, ir.Batch))
    return sum(_may_drop_some(batch) and _may_differ(_last_that_works(batch.input, tree)) for batch in batches)


def _neighbours_lost_at_once(tree: ir.Node) -> int:
    """Return how many batches lose other elements with one that fails, since TensorFlow fuses a map with them.

    The fused stage takes all elements of a batch, and gives none of them if one fails. A separate batch stops at the
    failed element and begins anew after it. Only a consumer that reads on, such as ``ignore_errors``, sees this.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> halves = tf.data.Dataset.range(4).map(lambda x: 6 // x)
    >>> whole = tf.data.Dataset.range(4).map(lambda x: x + 1)
    >>> batches = (each.batch(2).ignore_errors() for each in (halves, halves.take(-1), halves.prefetch(1), whole))
    >>> [_neighbours_lost_at_once(extract(each)) for each in (*batches, halves.batch(2))]
    [1, 1, 0, 0, 0]
    """
    ignoring = (node for node in trees.walk(tree) if isinstance(node, ir.IgnoreErrors))
    batches = {node for each in ignoring for node in trees.walk(each) if isinstance(node, ir.Batch)}
    at_once = (each for each in batches if isinstance(_last_that_works(each.input, tree), ir.Mapping))
    return sum(who_may_fail(each.input) is not None for each in at_once)


def _may_drop_some(batch: ir.Batch) -> bool:
    number = signature(batch.input).cardinality
    return batch.drop_remainder and (number < 0 or number % batch.batch_size > 0)


def _shuffles_repeated_at_once(tree: ir.Node) -> Counter[Any]:
    """Return which seeded shuffles begin anew less often, since TensorFlow fuses a shuffle with its repeat.

    Each is counted as often as it is repeated in this way.

    A fused shuffle and repeat read their input once for each repetition; a separate repeat begins it once more at the
    end, and each shuffle there draws an order. So the next iterator begins with another order.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> shuffled = tf.data.Dataset.range(4).shuffle(4, seed=1)
    >>> twice = (each.repeat(2) for each in (shuffled, shuffled.batch(2), shuffled.batch(2).shuffle(2).take(-1)))
    >>> [len(_shuffles_repeated_at_once(extract(each))) for each in twice]
    [1, 0, 1]
    """
    # A repeat(1) makes one more iterator too, unless TensorFlow drops it.
    least = 2 if does_by_itself(tree, "noop_elimination") else 1
    repeats = (node for node in trees.walk(tree) if isinstance(node, ir.Repeat) and node.count >= least)
    at_once = (node for node in repeats if isinstance(_last_that_works(node.input, tree), ir.Shuffle))
    return Counter(node.origin for repeat in at_once for node in trees.walk(repeat) if is_reseeded(node))


def _shuffles_parted(tree: ir.Node) -> int:
    """Return how many shuffles are separated only by maps from a repeat that TensorFlow would otherwise fuse with them.

    The fused stage fills the buffer for the next epoch while the rest of this one is read. When separated, each epoch
    begins with an empty buffer, and all wait until it is full.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> shuffled = tf.data.Dataset.range(4).shuffle(4)
    >>> parted = shuffled.map(tf.square), shuffled.map(tf.square).take(-1), shuffled, shuffled.batch(2)
    >>> [_shuffles_parted(extract(each.repeat())) for each in parted]
    [1, 1, 0, 0]
    """
    repeats = (node for node in dict.fromkeys(trees.walk(tree)) if isinstance(node, ir.Repeat) and node.count != 1)
    return sum(_only_maps_part_it(node.input, tree) for node in repeats)


def _only_maps_part_it(node: ir.Node, tree: ir.Node) -> bool:
    node = last = _last_that_works(node, tree)
    while isinstance(node, ir.Mapping):
        node = _last_that_works(node.input, tree)
    return node is not last and isinstance(node, ir.Shuffle) and node.mixes


def _last_that_works(node: ir.Node, tree: ir.Node) -> ir.Node:
    """Return the last stage that TensorFlow does not drop as a no-op, if it drops any."""
    while _hands_all_on(node) and does_by_itself(tree, "noop_elimination"):
        (node,) = node.inputs
    return node


def _hands_all_on(node: ir.Node) -> bool:
    match node:
        case ir.Take(takes_all=True) | ir.Skip(count=0) | ir.Repeat(count=1) | ir.Shard(num_shards=1):
            return True
    return False


def _may_differ(node: ir.Node) -> bool:
    return isinstance(node, ir.Mapping) and not signature(node).has_one_shape
