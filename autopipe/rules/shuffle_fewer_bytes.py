from dataclasses import replace

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.parts.fixed_part import split_before_growth
from autopipe.pipeline.ir import Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._mixing import mixing, repeats_a_seed, shuffled_map
from autopipe.rules._obligations import (
    WHOLE_EPOCH,
    CallsUnseen,
    ErrorsSurface,
    FewerBytes,
    ReadAheadUnseen,
    RoundingUnseen,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def shuffle_fewer_bytes(node: Node) -> Rewrite | None:
    """map(f) | shuffle(n)  ->  map(first part of f) | shuffle(n) | map(rest of f)

    Where f makes its elements smaller before arithmetic makes them larger again (a photograph becomes a small image
    of bytes, then of floats), neither order of map and shuffle is good: the buffer holds the largest or the second
    largest. f is cut where its result takes the fewest bytes. A shuffle never looks at elements, so the order is the
    same, also with a seed. Where a repeat comes right after the shuffle, the rest of f goes after both. It needs: fewer
    bytes at the cut than on both sides of f, nothing in f that could be seen to run in another order, no
    ``ignore_errors`` downstream, and after a repeat of a seeded shuffle, that elements can be made early unobserved.
    """
    found = shuffled_map(node)
    parts = split_before_growth(found[1].fn) if found else None
    if found is None or parts is None:
        return None
    (shuffle, mapped), (first, rest) = found, parts
    early = replace(mapped, fn=first)
    after = replace(mapped, fn=rest, input=mixing(node, early))
    fewer = FewerBytes(early, than=(mapped.input, mapped), count=int(min(shuffle.capacity, WHOLE_EPOCH)))
    ahead = (ReadAheadUnseen(node),) if repeats_a_seed(node) else ()
    needed = (CallsUnseen(mapped.fn), ErrorsSurface(rest), *ahead, fewer)
    exact = rounds_alike(mapped.fn, first, rest)
    return up_to_rounding(after, needed, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(mapped.fn)))
