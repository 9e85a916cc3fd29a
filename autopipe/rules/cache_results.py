from dataclasses import replace
from typing import NamedTuple

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.function import Function
from autopipe.functions.joined.compose import compose
from autopipe.functions.joined.losing import losing_errors
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import changes_between_epochs, split_fixed_part
from autopipe.pipeline.ir import IgnoreErrors, Map, MemoizedMap, Node
from autopipe.rules._base import Keeps, Obligation, Phase, Rewrite, rule
from autopipe.rules._caching import cached_before_mixing, nothing_to_keep
from autopipe.rules._memoizing import LEAST_SAVED_SECONDS, memoized, numbered
from autopipe.rules._obligations import (
    FitsMemory,
    NoCacheServes,
    NoErrorIsLost,
    NoNewReadAhead,
    NotCachedYet,
    OrdinaryTypes,
    RoundingUnseen,
    SameNumbers,
    StartsSoon,
    WorkBeforeChange,
    WorthCaching,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE, phase=Phase.BATCH)
def cache_results(node: Node) -> Rewrite | None:
    """shuffle | take(n) | map(f)  ->  enumerate | shuffle | take(n) | memoized_map(fixed part of f) | map(rest of f)

    A cache holds one sequence, and only once it was read to its end. Where each epoch takes other elements of a
    shuffle, or draws them from several datasets, or leaves some out, or an ``ignore_errors`` downstream drops those
    that fail, no cache can serve. But elements can be numbered upstream, where each epoch still has the same ones,
    before stages that only reorder or select them. What f gives for a number is then kept: for as many as are read, in
    any order. Elements of files that are shuffled, or read several at once, are numbered within their file. An element
    that fails is tried again the next time, as before. It needs: a source that is the same in every epoch, results that
    all fit the RAM budget, work that costs more than looking up its result and, under an ``ignore_errors`` or where the
    sequence is promised, no map before f whose error is lost because f does not use its result.
    """
    if not isinstance(node, Map) or not node.one_for_one:
        return None
    kept = _kept(node)
    if kept is None:
        return None
    results = kept.memoized.kept
    same = SameNumbers(kept.memoized.fn, kept.memoized.input)
    safe: tuple[Obligation, ...] = (
        WorkBeforeChange(node.fn),
        NoCacheServes(StartsSoon(kept.cached, kept.with_cache), same),
        NotCachedYet(node),
        same,
        OrdinaryTypes(results),
        NoNewReadAhead(node),
        *map(NoErrorIsLost, kept.losing),
    )
    # Elements that fail cost time as well, and must not prevent measuring the others.
    worth = (WorthCaching(IgnoreErrors(input=results), LEAST_SAVED_SECONDS), FitsMemory(results))
    return up_to_rounding(kept.after, safe, worth, exact=kept.exact, unseen=RoundingUnseen(kept.jump))


class _Kept(NamedTuple):
    """What becomes of a map.

    Attributes:
        cached: what a cache would hold, if one were possible.
        with_cache: what would then become of the site.
        memoized: the map that keeps results.
        after: what replaces the site.
        exact: whether it gives the same bits.
        jump: an op that may amplify a rounding difference.
        losing: functions whose possible failures a later one ignores.
    """

    cached: Map
    with_cache: Node
    memoized: MemoizedMap
    after: Node
    exact: bool
    jump: str | None
    losing: tuple[Function, ...]


def _kept(node: Map) -> _Kept | None:
    try:
        parts = split_fixed_part(node.fn)
    except IllegalCutError:
        # cache_fixed_work says why.
        return None
    if nothing_to_keep(node.fn, parts):
        return None
    fixed = parts[0] if parts else node.fn
    before, maps = _maps_before(node)
    functions = [*maps, fixed]
    work = _composed(functions)
    kept = memoized(node, work, *numbered(before))
    cached, with_cache = cached_before_mixing(node, parts, on_disk=False)
    return _Kept(
        cached=cached,
        with_cache=with_cache,
        memoized=kept,
        after=replace(node, fn=parts[1], input=kept) if parts else kept,
        exact=rounds_alike(work, *functions) and (parts is None or rounds_alike(node.fn, *parts)),
        jump=jumps_after_regrouping(work) or (jumps_after_regrouping(node.fn) if parts else None),
        losing=losing_errors(functions),
    )


def _maps_before(node: Map) -> tuple[Node, list[Function]]:
    """Return the source of the maps right before a map, and their functions in the order they run."""
    maps: list[Function] = []
    stage = node.input
    while isinstance(stage, Map) and stage.one_for_one and not changes_between_epochs(stage.fn):
        maps.insert(0, stage.fn)
        stage = stage.input
    return stage, maps


def _composed(functions: list[Function]) -> Function:
    whole, *others = functions
    for each in others:
        whole = compose(whole, each)
    return whole
