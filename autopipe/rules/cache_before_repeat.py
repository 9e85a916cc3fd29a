from autopipe.pipeline.ir import Cache, Node, Repeat
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import InMemory, NoErrorIsIgnored, SameEveryEpoch


@rule(keeps=Keeps.SEQUENCE)
def cache_before_repeat(node: Node) -> Rewrite | None:
    """repeat(n) | cache  ->  cache | repeat(n)

    After a repeat, a cache holds n copies of every element; after an endless one it grows until the memory is full, and
    never serves what it holds. Before the repeat it holds one copy and serves it from the second repetition on.
    It needs: elements that are the same in every repetition, a memory cache (a file may hold elements of the old
    place), and no ``ignore_errors`` downstream.
    """
    match node:
        case Cache(input=Repeat(count=count) as repeat) if count not in (0, 1):
            provided = (InMemory(node), SameEveryEpoch(repeat.input), NoErrorIsIgnored())
            return Rewrite(repeat.on(node.on(repeat.input)), provided)
    return None
