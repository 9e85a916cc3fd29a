"""The rule named as this file."""

from autopipe.pipeline.ir import Cache, Filter, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import Deterministic, ErrorsSurface, InMemory, OneReader


@rule(keeps=Keeps.SEQUENCE)
def cache_after_filter(node: Node) -> Rewrite | None:
    """cache | filter(p)  ->  filter(p) | cache

    A cache before a filter also holds what no epoch lets through, and every epoch asks p again about each element, in
    one thread. It takes: p deterministic, nobody else who reads the cache (they would find fewer elements), no
    ``ignore_errors`` downstream, and a memory cache (a file may hold all elements already).
    """
    match node:
        case Filter(input=Cache() as cache, predicate=predicate):
            alone = OneReader(cache, "both readers get all elements from it")
            passed = cache.on(node.on(cache.input))
            return Rewrite(passed, (Deterministic(predicate), alone, ErrorsSurface(predicate), InMemory(cache)))
    return None
