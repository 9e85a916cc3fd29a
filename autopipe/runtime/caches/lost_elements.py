"""How far stages read ahead of memory caches: an element that fails there is missing from the cache once it is full."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from autopipe.functions.analysis.failures import types_that_may_fail
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import memory_caches
from autopipe.pipeline.failing import may_fail_itself, who_may_fail
from autopipe.pipeline.signature import signature
from autopipe.rules import decides_caches

__all__ = ["may_leave_out", "read_otherwise", "reads_further_ahead"]


def may_leave_out(rewriting: Rewriting) -> bool:
    """Return whether a memory cache may lack elements that failed, though no cache would in the pipeline as written."""
    before, after = rewriting.before, rewriting.after
    if not _has_failing_cache(after):
        return False
    added = len(memory_caches(after)) > len(memory_caches(before))
    # The author's own caches have an origin; in a dataset optimized before, others were added or moved.
    added = added or any(cache.origin is None for cache in memory_caches(before))
    return added or not _failing_before_caches(after) <= _failing_before_caches(before)


def read_otherwise(rewriting: Rewriting) -> bool:
    """Return whether rules moved a memory cache that may lack elements, or added calls ahead of it."""
    moved = any(decides_caches(step.rule) for step in rewriting.steps)
    # The author's own caches have an origin, unless what they keep has changed.
    moved = moved or any(cache.origin is None for cache in memory_caches(rewriting.after))
    further = _calls_ahead_of_caches(rewriting.after) > _calls_ahead_of_caches(rewriting.before)
    return (moved or further) and _has_failing_cache(rewriting.after)


def reads_further_ahead(tree: ir.Node, than: ir.Node) -> bool:
    """Return whether a stage reads further ahead of a memory cache that may lack elements than it did before.

    Args:
        tree: a pipeline.
        than: the same pipeline with the numbers before. AUTOTUNE counts as few there, since it begins with few.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> def read_ahead(size):
    ...     numbers = tf.data.Dataset.from_tensor_slices(["1", "2"]).map(tf.strings.to_number)
    ...     return extract(numbers.cache().prefetch(size))
    >>> reads_further_ahead(read_ahead(8), read_ahead(2)), reads_further_ahead(read_ahead(1), read_ahead(2))
    (True, False)
    """
    pairs = list(zip(_read_ahead_of_caches(tree), _read_ahead_of_caches(than), strict=True))
    further = any(size != written and _at_most(size) > max(written, 1) for size, written in pairs)
    return further and _has_failing_cache(tree)


def _has_failing_cache(tree: ir.Node) -> bool:
    return any(who_may_fail(each.input) is not None for each in memory_caches(tree))


def _failing_before_caches(tree: ir.Node) -> Counter[str]:
    """Return what may fail in the stages that fill memory caches: ops of their functions, or else the stages."""
    filling = {id(node): node for cache in memory_caches(tree) for node in trees.walk(cache.input)}
    return Counter(chain.from_iterable(map(_failing, filling.values())))


def _failing(node: ir.Node) -> Iterable[str]:
    if isinstance(node, ir.Mapping | ir.Filter):
        return chain.from_iterable(map(types_that_may_fail, trees.called_by(node)))
    if isinstance(node, ir.Batch) and signature(node.input).has_one_shape:
        return ()
    return (type(node).__name__,) if may_fail_itself(node) else ()


def _read_ahead_of_caches(tree: ir.Node) -> Iterator[int]:
    """Yield how many elements each stage after a memory cache may take ahead; AUTOTUNE as it is."""
    for node in trees.walk(tree):
        if memory_caches(node) and not trees.is_memory_cache(node):
            yield _read_ahead(node)


def _read_ahead(node: ir.Node) -> int:
    match node:
        case ir.Prefetch(buffer_size=size) | ir.Shuffle(buffer_size=size):
            return int(size)
        case ir.Map(num_parallel_calls=int(calls)) | ir.MemoizedMap(num_parallel_calls=int(calls)):
            return calls
        case ir.Batch(num_parallel_calls=int(calls)):
            return calls
        case ir.Interleave(num_parallel_calls=int()):
            return int(node.cycle_length)
    return 0


def _at_most(size: int) -> float:
    return math.inf if size == ir.AUTOTUNE else size


def _calls_ahead_of_caches(tree: ir.Node) -> int:
    """Return how many stages read memory caches further ahead than TensorFlow makes any do by itself."""
    wide = (node for node in dict.fromkeys(trees.walk(tree)) if _calls_ahead(node))
    return sum(bool(memory_caches(node)) for node in wide)


def _calls_ahead(node: ir.Node) -> bool:
    match node:
        case ir.Map(num_parallel_calls=calls) | ir.MemoizedMap(num_parallel_calls=calls):
            return calls is not None and calls > 0
    return isinstance(node, ir.Interleave) and node.num_parallel_calls is not None
