"""The rule named as this file."""

from dataclasses import replace

from autopipe.functions.known.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.parts.fixed_part import split_before_growth
from autopipe.pipeline.ir import Map, Node, Shuffle
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import WHOLE_EPOCH, CallsUnseen, ErrorsSurface, FewerBytes, RoundingUnseen
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def shuffle_fewer_bytes(node: Node) -> Rewrite | None:
    """map(f) | shuffle(n)  ->  map(first part of f) | shuffle(n) | map(rest of f)

    Where f makes its elements smaller before arithmetic makes them larger again (a photograph becomes a small image
    of bytes, then of floats), neither order of map and shuffle is good: the buffer holds the largest or the second
    largest. f is cut where its result takes the fewest bytes. A shuffle never looks at elements, so the order is the
    same, also with a seed. It takes: fewer bytes at the cut than on both sides of f, nothing in f that could be seen
    to run in another order, and no ``ignore_errors`` downstream.
    """
    match node:
        case Shuffle(input=Map(preserve_cardinality=True) as mapped):
            parts = split_before_growth(mapped.fn)
            if parts is None:
                return None
            first, rest = parts
            early = replace(mapped, fn=first)
            after = replace(mapped, fn=rest, input=node.on(early))
            held = int(min(node.capacity, WHOLE_EPOCH))
            fewer = FewerBytes(early, than=(mapped.input, mapped), count=held)
            needed = (CallsUnseen(mapped.fn), ErrorsSurface(rest), fewer)
            exact = rounds_alike(mapped.fn, first, rest)
            return up_to_rounding(after, needed, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(mapped.fn)))
    return None
