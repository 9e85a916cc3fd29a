"""Which stages of a pipeline may fail on some element."""

from __future__ import annotations

from autopipe.functions.analysis.failures import may_fail
from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage

__all__ = ["may_fail_itself", "who_may_fail"]

# Stages that pass on what they get, or hold it in memory already.
_NEVER_FAIL = (
    ir.Concatenate | ir.Enumerate | ir.Options | ir.Prefetch | ir.RandomNumbers | ir.Range | ir.Repeat | ir.Shard
    | ir.Shuffle | ir.Skip | ir.Take | ir.TensorSlices | ir.Tensors | ir.ThreadPool | ir.Zip
)  # fmt: skip


def who_may_fail(pipeline: ir.Node) -> str | None:
    """Return a stage that could fail on some element, and why; ``None`` if every element comes through.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> who_may_fail(extract(tf.data.Dataset.range(3).map(lambda x: x + 1).shuffle(3))) is None
    True
    >>> who_may_fail(extract(tf.data.Dataset.range(3).map(lambda x: 6 // x)))
    'map(<lambda>) may fail (FloorDiv)'
    """
    return next(filter(None, map(may_fail_itself, trees.walk(pipeline))), None)


def may_fail_itself(node: ir.Node) -> str | None:
    """Return that a stage could fail on some element that it gets, and why; ``None`` if it never fails."""
    match node:
        case ir.Map(fn=fn) | ir.MemoizedMap(fn=fn) | ir.Filter(predicate=fn):
            culprit = may_fail(fn)
            return f"{stage(node)} may fail ({culprit})" if culprit else None
        case ir.Cache(in_memory=True):
            return None
    return None if isinstance(node, _NEVER_FAIL) else f"{stage(node)} may fail"
