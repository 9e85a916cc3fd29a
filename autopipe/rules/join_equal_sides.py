from autopipe.functions.analysis.rounding import jumps_after_regrouping
from autopipe.pipeline.ir import Map, Node, Prefetch, Zip
from autopipe.rules._base import Keeps, Obligation, Phase, Rewrite, rule
from autopipe.rules._joining import join_sides
from autopipe.rules._obligations import (
    DrawnInTurn,
    NoErrorIsLost,
    NoSideEffects,
    RoundingUnseen,
    SameOnAllSides,
    SharedWork,
    ZipErrorsEndEpoch,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE, phase=Phase.JOIN)
def join_equal_sides(node: Node) -> Rewrite | None:
    """zip(s | map(f), s | map(g))  ->  s | map(f and g)

    Two views of each image, as in contrastive learning, are two pipelines of the same files: each reads and decodes all
    of them, and a cache on each side holds them twice. One map gives both views, and does only once what f and g both
    do before they draw. Batches and shuffles after f and g then act on both at once. It needs: sides that are equal
    except for their maps, shuffles with a seed (each side has its own order otherwise), maps with equal arguments,
    nothing in f or g that leaves traces, plain tensors, no ``ignore_errors`` downstream (which would zip others after
    an error) and, if two maps draw from generators, no batch or shuffle after them unless it does not matter which
    element gets which draw. Where the sequence is promised, no map may fail in something that the next map on its side
    ignores.
    """
    if not isinstance(node, Zip) or len(node.parts) < 2:
        return None
    found = join_sides(node, node.parts)
    if found is None or not found.merged:
        return None
    unseen = tuple(NoSideEffects(fn) for fn in dict.fromkeys(found.functions))
    shared = SharedWork(tuple(op for each in found.merged for op in each.shared))
    provided: tuple[Obligation, ...] = (
        SameOnAllSides(found.sources),
        *unseen,
        ZipErrorsEndEpoch(),
        *map(NoErrorIsLost, dict.fromkeys(found.losing)),
        DrawnInTurn(found.functions, one_by_one=_ends_in_maps(found.after, found.sources)),
        shared,
    )
    result = node.parts[0].on(found.after) if all(isinstance(each, Prefetch) for each in node.parts) else found.after
    exact = all(each.rounds_alike for each in found.merged)
    jump = next(filter(None, (jumps_after_regrouping(each.fn) for each in found.merged)), None)
    return up_to_rounding(result, provided, exact=exact, unseen=RoundingUnseen(jump))


def _ends_in_maps(node: Node, sources: tuple[Node, ...]) -> bool:
    """Return whether only maps come after what all sides read."""
    while isinstance(node, Map) and node not in sources:
        node = node.input
    return node in sources
