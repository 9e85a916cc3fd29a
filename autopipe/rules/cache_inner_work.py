"""The rule named as this file."""

from collections.abc import Iterator

from autopipe.functions.fixed_part import does_work
from autopipe.functions.inner_work import inner_work
from autopipe.pipeline.ir import (
    Cache,
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
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    OneReader,
    ReadToItsEnd,
    SameEveryEpoch,
    WorthCaching,
)

_WORKING = FlatMap | Filter | Generator | GroupByWindow | Interleave | LegacyInterleave | Scan | TakeWhile
# There is no doing it by the batch, so that this is saved of every element.
_LEAST_SAVED_SECONDS = 4e-6


@rule(keeps=Keeps.SEQUENCE)
def cache_inner_work(node: Node) -> Rewrite | None:
    """flat_map(f)  ->  flat_map(f) | cache

    Other stages than a map work too: a ``CsvDataset`` parses every line again in every epoch, and so does what is made
    of many, as by ``make_csv_dataset``; a filter asks, a scan sums up, the datasets that a ``flat_map`` opens map and
    filter by themselves. A ``zip`` of sides that may end apart, as two files of text, allows of no cache on them, but
    after it one can stand. What comes out of such a stage is kept in memory, in place of what a cache right before it
    holds. It takes: elements that are the same in every epoch and fit the RAM budget, work that costs more than
    reading its result from memory, no cache that serves it already, nobody else who reads the one before it, and
    downstream no ``ignore_errors`` and nothing that stops before the end.
    """
    if not _works(node):
        return None
    kept = node.on(*map(_before_cache, node.inputs))
    replaced = (each for each in node.inputs if _before_cache(each) is not each)
    alone = [OneReader(each, "both get all elements from it, made once") for each in replaced]
    safe: tuple[Obligation, ...] = (
        NotCachedYet(node),
        *alone,
        SameEveryEpoch(kept),
        NoErrorIsIgnored(),
        ReadToItsEnd(kept),
    )
    return Rewrite(Cache(input=kept), (*safe, WorthCaching(kept, _LEAST_SAVED_SECONDS), FitsMemory(kept)))


def _works(node: Node) -> bool:
    match node:
        case FilesReader():
            return node.csv is not None
        case Zip(parts=parts):
            return _may_end_apart(parts) and any(_works(each) or _maps(each) for each in _uncached(parts))
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


def _before_cache(node: Node) -> Node:
    return node.input if isinstance(node, Cache) and node.in_memory else node
