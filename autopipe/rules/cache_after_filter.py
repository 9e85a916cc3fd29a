from autopipe.pipeline.ir import Cache, Filter, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import Deterministic, ErrorsSurface, InMemory, OneReader, ReadToItsEnd


@rule(keeps=Keeps.SEQUENCE)
def cache_after_filter(node: Node) -> Rewrite | None:
    """cache | filter(p)  ->  filter(p) | cache

    A cache before a filter also holds what no epoch lets through, and every epoch asks p again about each element, in
    one thread. It needs: p deterministic, nobody else who reads the cache (they would find fewer elements), no
    ``ignore_errors`` downstream, a memory cache (a file may hold all elements already), and nothing downstream that
    stops early: of how many elements pass, only the end tells that these were all.
    """
    match node:
        case Filter(input=Cache() as cache, predicate=predicate):
            alone = OneReader(cache, "both readers get all elements from it")
            passed = node.on(cache.input)
            filled = (InMemory(cache), ReadToItsEnd(passed))
            return Rewrite(cache.on(passed), (Deterministic(predicate), alone, ErrorsSurface(predicate), *filled))
    return None
