from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import split_fixed_part
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._caching import cached_before_mixing, nothing_to_keep
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    ReadToItsEnd,
    RoundingUnseen,
    SameEveryEpoch,
    StartsSoon,
    WorkBeforeChange,
    WorthCaching,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def cache_fixed_work(node: Node) -> Rewrite | None:
    """map(f)  ->  map(fixed part of f) | cache | map(rest of f)

    What f does before it first draws a random number is the same in every epoch. It is done once and kept in memory;
    only the rest runs again. f is cut where the fewest bytes have to be kept, and the cache stands before a shuffle or
    repeat that comes ahead of f, since these do not look at elements. If nothing in f changes, f is cached whole. In
    the epoch that fills the cache, a shuffle of all elements stays where it was, so that the first element does not
    wait for the work on the last; one with a seed cannot. It needs: everything upstream the same in every epoch, a
    cache that fits the RAM budget, work that costs more than reading its result from memory, no cache that serves it
    already, a first element that waits no more than a few seconds, and downstream no ``ignore_errors`` and nothing that
    stops before the end.
    """
    match node:
        case Map(one_for_one_in_order=True):
            fixable = WorkBeforeChange(node.fn)
            try:
                parts = split_fixed_part(node.fn)
            except IllegalCutError:
                return Rewrite(node, provided=(fixable,))
            if nothing_to_keep(node.fn, parts):
                return None
            fixed, result = cached_before_mixing(node, parts, on_disk=False)
            worth = WorthCaching(fixed)
            soon = StartsSoon(fixed, result)
            same, fits = SameEveryEpoch(fixed, node.fn if parts else None), FitsMemory(fixed)
            safe = (fixable, NotCachedYet(node), same, NoErrorIsIgnored(), ReadToItsEnd(fixed))
            exact = parts is None or rounds_alike(node.fn, *parts)
            unseen = RoundingUnseen(jumps_after_regrouping(node.fn))
            return up_to_rounding(result, safe, (worth, fits, soon), exact=exact, unseen=unseen)
    return None
