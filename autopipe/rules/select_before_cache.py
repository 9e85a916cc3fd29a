from autopipe.pipeline.ir import Cache, Node, Shard, Skip, Take
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import InMemory, NoErrorIsIgnored, OneReader, SameEveryEpoch


@rule(keeps=Keeps.SEQUENCE)
def select_before_cache(node: Node) -> Rewrite | None:
    """cache | take(n)  ->  take(n) | cache

    A cache that ``take`` stops reading before its end is thrown away, and filled anew in every epoch, if no other
    dataset fills it; where training and validation data are split after a cache, the cache of each would hold all of
    both. After ``take``, ``skip`` or ``shard`` a cache holds what is asked for, and is full after one epoch. It needs:
    elements that are the same in every epoch, no other reader of the cache in the pipeline, a memory cache (a file may
    hold all elements already), and no ``ignore_errors`` downstream.
    """
    match node:
        case Take(input=Cache() as cache) | Skip(input=Cache() as cache) | Shard(input=Cache() as cache):
            alone = OneReader(cache, "the other reader gets all elements from it")
            provided = (InMemory(cache), SameEveryEpoch(cache.input), alone, NoErrorIsIgnored())
            return Rewrite(cache.on(node.on(cache.input)), provided)
    return None
