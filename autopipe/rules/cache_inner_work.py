from autopipe.pipeline.ir import Cache, Node
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._inner_work import LEAST_SAVED_SECONDS, works_inside
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    OneReader,
    ReadToItsEnd,
    SameEveryEpoch,
    WorthCaching,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_inner_work(node: Node) -> Rewrite | None:
    """flat_map(f)  ->  flat_map(f) | cache

    Other stages than a map work too: a ``CsvDataset`` parses every line again in every epoch, and so does what is made
    of many, as by ``make_csv_dataset``; a filter asks, a scan sums up, the datasets that a ``flat_map`` opens map and
    filter by themselves. A ``zip`` of sides that may end apart, as two files of text, allows of no cache on them, but
    after it one can stand. What comes out of such a stage is kept in memory, in place of what a cache right before it
    holds. It needs: elements that are the same in every epoch and fit the RAM budget, work that costs more than
    reading its result from memory, no cache that serves it already, nobody else who reads the one before it, and
    downstream no ``ignore_errors`` and nothing that stops before the end.
    """
    if not works_inside(node):
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
    return Rewrite(Cache(input=kept), (*safe, WorthCaching(kept, LEAST_SAVED_SECONDS), FitsMemory(kept)))


def _before_cache(node: Node) -> Node:
    return node.input if isinstance(node, Cache) and node.in_memory else node
