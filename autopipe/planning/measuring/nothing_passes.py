"""Whether anything comes out: of a sample repeated without end, a filter may drop all, and would do so for ever."""

from __future__ import annotations

from typing import Any

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.text import stage
from autopipe.rules import MeasurementError

__all__ = ["refuse_if_nothing_passes"]

_MAY_DROP_ALL = (
    ir.Filter,
    ir.FlatMap,
    ir.GroupByWindow,
    ir.IgnoreErrors,
    ir.Interleave,
    ir.LegacyInterleave,
    ir.TakeWhile,
)
_SECONDS = 1.0


def refuse_if_nothing_passes(endless: ir.Node) -> None:
    """Look for the first element of a pipeline that has no end, for a second; and so for each part it chooses from.

    Raises:
        MeasurementError: if none comes.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> refuse_if_nothing_passes(extract(tf.data.Dataset.range(3).repeat().filter(lambda x: x > 9)))
    Traceback (most recent call last):
    ...
    autopipe.rules._base.MeasurementError: of the elements tried, none passes filter(<lambda>)
    """
    chosen = (part for node in trees.walk(endless) if isinstance(node, ir.ChooseFrom) for part in node.parts)
    for each in dict.fromkeys([endless, *chosen]):
        _refuse_if_none_passes(each)


def _refuse_if_none_passes(endless: ir.Node) -> None:
    dropping = [node for node in trees.walk(endless) if isinstance(node, _MAY_DROP_ALL)]
    if not dropping or _gives_any(endless):
        return
    # The last one is at fault where none before it is, without another look.
    last, *earlier = dropping
    at_fault = next((node for node in reversed(earlier) if not _gives_any(node)), last)
    raise MeasurementError(f"of the elements tried, none passes {stage(at_fault)}")


def _gives_any(endless: ir.Node) -> bool:
    return next(iter(build(trees.transform(endless, _ending))), None) is not None


def _ending(node: ir.Node) -> ir.Node:
    """Return a source that ends after a while in place of one that repeats without end."""
    if isinstance(node, ir.Repeat) and node.count < 0:
        return ir.Source(dataset=_for_a_while(build(node)))
    return node


def _for_a_while(dataset: Any) -> Any:
    import tensorflow as tf

    end = tf.timestamp() + _SECONDS
    return dataset.take_while(lambda *_: tf.timestamp() < end)
