"""The rule named as this file."""

from autopipe.functions.inner_work import inner_work
from autopipe.pipeline.ir import (
    Cache,
    FilesReader,
    Filter,
    FlatMap,
    Generator,
    GroupByWindow,
    Interleave,
    LegacyInterleave,
    Node,
    Scan,
    TakeWhile,
)
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
    filter by themselves. What comes out of such a stage is kept in memory, in place of what a cache right before it
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
    if isinstance(node, FilesReader):
        return node.csv is not None
    return isinstance(node, _WORKING) and any(map(inner_work, called_by(node)))


def _before_cache(node: Node) -> Node:
    return node.input if isinstance(node, Cache) and node.in_memory else node
