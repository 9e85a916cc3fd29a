from autopipe.pipeline.ir import Cache, Filter, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import Deterministic, ErrorsSurface, InMemory, OneReader, ReadToItsEnd


@rule(keeps=Keeps.SEQUENCE)
def cache_after_filter(node: Node) -> Rewrite | None:
    """cache | filter(p)  ->  filter(p) | cache

    A cache before a filter also holds the elements that never pass, and every epoch calls p again for each element, in
    one thread. It needs: p deterministic, no other reader of the cache (it would find fewer elements), no
    ``ignore_errors`` downstream, a memory cache (a file may hold all elements already), and no stage downstream that
    stops early: the number of elements that pass is known only at the end.
    """
    match node:
        case Filter(input=Cache() as cache, predicate=predicate):
            alone = OneReader(cache, "both readers get all elements from it")
            passed = node.on(cache.input)
            filled = (InMemory(cache), ReadToItsEnd(passed))
            return Rewrite(cache.on(passed), (Deterministic(predicate), alone, ErrorsSurface(predicate), *filled))
    return None
