"""Which stages do work, beside maps: those that call functions for other purposes, or parse what they read."""

from collections.abc import Iterator

from autopipe.functions.analysis.work import does_work, inner_work
from autopipe.pipeline.ir import (
    FilesReader,
    Filter,
    FlatMap,
    Generator,
    GroupByWindow,
    Interleave,
    Keeping,
    LegacyInterleave,
    Map,
    Node,
    Scan,
    TakeWhile,
    Zip,
)
from autopipe.pipeline.signature import signature
from autopipe.pipeline.trees import called_by

__all__ = ["LEAST_SAVED_SECONDS", "works_inside"]

# This work cannot be done by the batch, so a cache saves this for every element.
LEAST_SAVED_SECONDS = 4e-6
_WORKING = FlatMap | Filter | Generator | GroupByWindow | Interleave | LegacyInterleave | Scan | TakeWhile


def works_inside(node: Node) -> bool:
    """Return whether a stage that is not a map does more than pass on elements; maps have their own rules."""
    match node:
        case FilesReader():
            return node.csv is not None
        case Zip(parts=parts):
            return _may_end_apart(parts) and any(works_inside(each) or _maps(each) for each in _uncached(parts))
    return isinstance(node, _WORKING) and any(map(inner_work, called_by(node)))


def _may_end_apart(parts: tuple[Node, ...]) -> bool:
    first, *others = (signature(part).cardinality for part in parts)
    return first < 0 or any(other != first for other in others)


def _uncached(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        if not isinstance(node, Keeping):
            yield node
            yield from _uncached(node.inputs)


def _maps(node: Node) -> bool:
    return isinstance(node, Map) and does_work(node.fn)
