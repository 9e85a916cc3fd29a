from autopipe.pipeline.ir import Cache, Node
from autopipe.pipeline.trees import is_memory_cache
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._inner_work import LEAST_SAVED_SECONDS, works_inside
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    OneReader,
    OthersStartSoon,
    ReadToItsEnd,
    SameEveryEpoch,
    WorthCaching,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_inner_work(node: Node) -> Rewrite | None:
    """flat_map(f)  ->  flat_map(f) | cache

    Maps are not the only stages that do work: a ``CsvDataset``, or several in ``make_csv_dataset``, parses every line
    again in every epoch; a filter, a scan, and the datasets inside a ``flat_map`` call functions of their own. Sides of
    a ``zip`` that may have different lengths, such as two text files, allow no cache on each, but one after the zip.
    What comes out of such a stage is kept in memory, in place of what a cache right before it holds. It needs: elements
    that are the same in every epoch and fit the RAM budget, work that costs more than reading its result from memory,
    no cache that serves it already, no other reader of the cache before it, and downstream no ``ignore_errors`` and
    nothing that stops before the end.
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
    cache = Cache(input=kept)
    measured = (WorthCaching(kept, LEAST_SAVED_SECONDS), FitsMemory(kept), OthersStartSoon(cache))
    return Rewrite(cache, (*safe, *measured))


def _before_cache(node: Node) -> Node:
    return node.input if is_memory_cache(node) else node
