from dataclasses import replace

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.parts.fixed_part import split_before_growth
from autopipe.pipeline.ir import Cache, Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import ErrorsSurface, FitsMemory, InMemory, OutgrowsMemory, RoundingUnseen
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def cache_fewer_bytes(node: Node) -> Rewrite | None:
    """map(f) | cache  ->  map(first part of f) | cache | map(rest of f)

    A cache of floats that were bytes takes four times the memory. f is cut where its result takes the fewest
    bytes; what comes after the cut is arithmetic, which costs little, but in every epoch: that pays off only if memory
    is short. It needs: a cache that as written is above the RAM budget, and below it after the cut; a memory cache, and
    no ``ignore_errors`` downstream.
    """
    match node:
        case Cache(input=Map(preserve_cardinality=True) as mapped):
            parts = split_before_growth(mapped.fn)
            if parts is None:
                return None
            first, rest = parts
            early = replace(mapped, fn=first)
            after = replace(mapped, fn=rest, input=node.on(early))
            needed = (InMemory(node), OutgrowsMemory(mapped), FitsMemory(early), ErrorsSurface(rest))
            exact = rounds_alike(mapped.fn, first, rest)
            return up_to_rounding(after, needed, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(mapped.fn)))
    return None
