"""Whether a memory cache lacks an element that failed, judged by how many it must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.rows import who_mixes_rows
from autopipe.functions.autograph import without_autograph
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature

__all__ = ["Whole", "all_come_through", "whole"]

# Stages that leave a gap where an element fails, and give no other in its place, as a take or a batch would.
# A skip then gives fewer in any case: TensorFlow begins to count anew.
_LEAVES_A_GAP = (
    ir.AssertCardinality | ir.Concatenate | ir.Enumerate | ir.FilesReader | ir.Filter | ir.FlatMap | ir.Interleave
    | ir.Mapping | ir.Options | ir.Prefetch | ir.Range | ir.Shuffle | ir.Skip | ir.TensorSlices
    | ir.Tensors | ir.Zip
)  # fmt: skip
_HANDING_ALL_ON = (
    ir.AssertCardinality | ir.Cache | ir.Concatenate | ir.Enumerate | ir.Mapping | ir.Options | ir.Prefetch
    | ir.Repeat | ir.Shuffle | ir.Skip | ir.ThreadPool
)  # fmt: skip
_ONE_FOR_ONE = ir.Enumerate | ir.Mapping | ir.Options | ir.Prefetch | ir.Shuffle


@dataclass(frozen=True)
class Whole:
    """What a cache holds if none of its elements failed.

    Attributes:
        number: the number of its elements, or of all rows if they are batches: a failed element is missing among the
            rows, while the number of batches may be the same.
        in_rows: whether it is the number of rows.
    """

    number: int
    in_rows: bool = False

    def is_in(self, cached: Any) -> bool:
        """Return whether a dataset of what the cache holds has this number."""

        @without_autograph
        def with_rows(so_far: Any, *element: Any) -> Any:
            return so_far + tf.shape(tf.nest.flatten(element)[0], out_type=tf.int64)[0]

        if not self.number:
            return True
        if self.in_rows:
            return int(cached.reduce(tf.constant(0, tf.int64), with_rows)) == self.number
        return len(list(cached.skip(self.number - 1))) == 1


def whole(cache: ir.Cache, pipeline: ir.Node) -> Whole | None:
    """Return what a cache of a pipeline holds if no element failed; ``None`` if no number shows that.

    Args:
        cache: the cache.
        pipeline: the whole pipeline: the number of elements may be asserted after the cache.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> def of(dataset):
    ...     cache = extract(dataset.cache())
    ...     return whole(cache, cache)
    >>> numbers = tf.data.Dataset.range(10).map(lambda x: x + 1)
    >>> of(numbers), of(numbers.batch(4))
    (Whole(number=10, in_rows=False), Whole(number=10, in_rows=True))
    >>> of(numbers.batch(4, drop_remainder=True)) is of(numbers.take(4)) is None
    True
    """
    kept = cache.input
    batch = _batch_of_rows(kept)
    if batch is None:
        number = _number_without_gaps(kept, _number_asserted_after(cache, pipeline))
        return None if number is None else Whole(number)
    number = _number_without_gaps(batch.input)
    if number is None or not isinstance(signature(kept).flat_specs[0], tf.TensorSpec):
        return None
    # A row that is dropped otherwise would take the place of an element that failed.
    dropped = number % batch.batch_size if batch.drop_remainder else 0
    return None if dropped else Whole(number, in_rows=True)


def all_come_through(pipeline: ir.Node) -> bool:
    """Return whether a consumer of all elements gets all that the caches hold, or the error of one that failed.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> cached = tf.data.Dataset.range(10).cache()
    >>> [all_come_through(extract(cached.batch(4, drop_remainder=dropped))) for dropped in (False, True)]
    [True, False]
    """
    after = (node for node in trees.walk(pipeline) if any(any(trees.keeping(read)) for read in node.inputs))
    return all(isinstance(node, _HANDING_ALL_ON) or _batches_all(node) for node in after)


def _batches_all(node: ir.Node) -> bool:
    if not isinstance(node, ir.Batching):
        return False
    number = signature(node.input).cardinality
    return not node.drop_remainder or (number >= 0 and number % node.batch_size == 0)


def _batch_of_rows(kept: ir.Node) -> ir.Batching | None:
    """Return the batch whose rows come through to the end; later stages do not change their number."""
    while isinstance(kept, ir.Prefetch | ir.Shuffle) or (isinstance(kept, ir.Map) and who_mixes_rows(kept.fn) is None):
        kept = kept.input
    return kept if isinstance(kept, ir.Batching) else None


def _number_asserted_after(cache: ir.Cache, pipeline: ir.Node) -> int | None:
    for node in trees.walk(pipeline):
        if isinstance(node, ir.AssertCardinality) and trees.past(node.input, _ONE_FOR_ONE) == cache:
            return node.count
    return None


def _number_without_gaps(kept: ir.Node, asserted: int | None = None) -> int | None:
    """Return the number of elements if none failed; a failed one would be missing."""
    if not all(isinstance(node, _LEAVES_A_GAP) for node in trees.walk(kept)):
        return None
    number = signature(kept).cardinality if asserted is None else asserted
    return number if number >= 0 else None
