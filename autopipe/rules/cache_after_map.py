from autopipe.pipeline import trees
from autopipe.pipeline.ir import Cache, Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._caching import before_mixing
from autopipe.rules._obligations import (
    WHOLE_EPOCH,
    Deterministic,
    ErrorsSurface,
    FitsMemory,
    InMemory,
    NotMuchLarger,
    OneReader,
    ReadToItsEnd,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_after_map(node: Node) -> Rewrite | None:
    """cache | map(f)  ->  map(f) | cache

    A cache below a map stores what goes into f, so f runs again on every element in every epoch. If f gives the
    same result for the same element each time, storing its results gives the same sequence, and f runs once. A
    shuffle or repeat may stand between: these do not look at elements. It needs: f deterministic, no other reader of
    the cache (it would hold something else), no ``ignore_errors`` downstream, a memory cache (a file may hold elements
    of the old place), and results that fit. If a shuffle holds them, they must be no larger than the input of f, and
    all of them must be read: otherwise f would run for all elements in the shuffle, in every epoch.
    """
    if not isinstance(node, Map):
        return None
    cache = before_mixing(node.input)
    if not isinstance(cache, Cache):
        return None
    mapped = node.on(cache.input)
    alone = OneReader(cache, "both readers get the same from it")
    provided = (Deterministic(node.fn), alone, ErrorsSurface(node.fn), InMemory(cache), FitsMemory(mapped))
    is_mixed = cache is not node.input
    held = (NotMuchLarger(mapped, than=cache.input, count=WHOLE_EPOCH), ReadToItsEnd(mapped)) if is_mixed else ()
    return Rewrite(trees.substitute(node.input, cache, cache.on(mapped)), (*provided, *held))
