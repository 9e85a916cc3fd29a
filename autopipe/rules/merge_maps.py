from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.joined.compose import compose
from autopipe.functions.joined.losing import losing_errors
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._calls import calls_of_both
from autopipe.rules._obligations import CallsUnseen, ErrorsSurface, Faster, NoErrorIsLost, NotCachedYet, RoundingUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def merge_maps(node: Node) -> Rewrite | None:
    """map(f) | map(g)  ->  map(f then g)

    Each parallel map schedules a call for every element and waits to put results back in order; small functions cost
    less than that. One call does both. The ops stay the same, and so do the results, bit for bit, unless a sum or
    product of f goes on in g, which TensorFlow may then take in another order. It comes after the rules that look for f
    or g alone. It needs: equal arguments of both maps (AUTOTUNE agrees with any number of calls), nothing in f or g
    from which the order of calls could be seen, no ``ignore_errors`` downstream, no cache there (little is gained in
    the first epoch alone), where the sequence is promised no error of f in something that g ignores, and a measured
    gain.
    """
    match node:
        case Map(input=Map() as first) if (both := _parallel_alike(first, node)) is not None:
            unseen = (CallsUnseen(first.fn), CallsUnseen(node.fn))
            if not all(each.holds for each in unseen):
                # To compose large functions takes seconds.
                return Rewrite(node, unseen)
            merged = replace(both, fn=compose(first.fn, node.fn))
            of_first = (NoErrorIsLost if losing_errors([first.fn, node.fn]) else ErrorsSurface)(first.fn)
            errors = (of_first, ErrorsSurface(node.fn))
            alike = rounds_alike(merged.fn, first.fn, node.fn)
            rounding = () if alike else (RoundingUnseen(jumps_after_regrouping(merged.fn)),)
            faster = Faster(node, merged, over=first.input)
            keeps = Keeps.TRAINING if effects(merged.fn).unseeded_random else None if alike else Keeps.ELEMENTS
            return Rewrite(merged, (*unseen, *errors, *rounding, NotCachedYet(node), faster), keeps)
    return None


def _parallel_alike(first: Map, then: Map) -> Map | None:
    """Return the second of two maps that are parallel in the same way, in the place of both.

    Others wait for ``parallel_map``.
    """
    calls = calls_of_both(first.num_parallel_calls, then.num_parallel_calls)
    both = replace(then, input=first.input, num_parallel_calls=calls)
    if calls is None or both != replace(first, fn=then.fn, name=then.name, num_parallel_calls=calls):
        return None
    return both
