from dataclasses import replace
from typing import NamedTuple

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.analysis.work import does_work
from autopipe.functions.function import Function
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import changes_between_epochs, split_fixed_part
from autopipe.pipeline.ir import ALL_ELEMENTS, Cache, Map, Node, Options, Prefetch, Shuffle
from autopipe.pipeline.trees import past, substitute, walk
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._caching import cached_before_mixing
from autopipe.rules._inner_work import LEAST_SAVED_SECONDS, works_inside
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NoRepeatAfter,
    NotCachedYet,
    OthersStartSoon,
    ReadToItsEnd,
    RoundingUnseen,
    SameElementsEveryEpoch,
    SoonShuffled,
    StartsSoon,
    WorkBeforeChange,
    WorthCaching,
    read_once,
)


@rule(keeps=Keeps.ELEMENTS)
def cache_free_order(node: Node) -> Rewrite | None:
    """map(f) | shuffle(n)  ->  map(f) | cache | shuffle(all)

    Shuffled files that are read several at once give each epoch its own order, which a cache would keep for good. Where
    an unseeded shuffle follows, and nothing between depends on the order, elements may come in any order: from the
    second epoch on, the shuffle mixes all that the cache holds, and in the first as many as its author wrote. Where no
    shuffle upstream decided the order, but only what was ready first, it goes on mixing as many as written. The shuffle
    may stand before the map too, and stands there again while the cache fills, so that the first element does not wait
    for the work on others; the map is then cut as ``cache_fixed_work`` cuts it. Where the work is not in a map but
    in reading the files, as ``make_csv_dataset`` parses rows, the rows are kept. It needs: upstream no stage that
    depends on the order, and none that takes it from a seed; no repeat downstream, with which one iterator would read
    on from the cache that it filled itself; that reading all elements before an epoch takes little time beside making
    them, or no more than filling the author's shuffle took; and otherwise what ``cache_fixed_work`` needs.
    """
    kept = _kept(node)
    if kept is None:
        return None
    fn, fixed, parts = kept.fn, kept.fixed, kept.parts
    known = (WorkBeforeChange(fn),) if fn else ()
    same, alone = SameElementsEveryEpoch(fixed), NoRepeatAfter(fixed)
    safe = (*known, NotCachedYet(kept.working), same, alone, NoErrorIsIgnored())
    whole = ReadToItsEnd(fixed, one_pass=kept.one_pass)
    worth = WorthCaching(fixed) if fn else WorthCaching(fixed, LEAST_SAVED_SECONDS)
    soon: Obligation = OthersStartSoon(kept.after)
    if isinstance(node, Map) and isinstance(fixed, Map):
        soon = StartsSoon(fixed, kept.after)
    provided = (*safe, whole, worth, SoonShuffled(fixed), FitsMemory(fixed), soon)
    if fn and parts and not rounds_alike(fn, *parts):
        return Rewrite(kept.after, (*provided, RoundingUnseen(jumps_after_regrouping(fn))))
    return Rewrite(kept.after, provided)


class _Kept(NamedTuple):
    """The working stage, its function if it is a map, its cached part, its parts if it is cut, and what replaces it.

    The last is given twice: with one pass over the elements, and as it will be.
    """

    working: Node
    fn: Function | None
    fixed: Node
    parts: tuple[Function, Function] | None
    one_pass: Node
    after: Node


def _kept(node: Node) -> _Kept | None:
    match node:
        case Shuffle() if _mixes_anew(node):
            working = _before(node)
            if works_inside(working):
                mixed = _mixing(node, working).on(substitute(node.input, working, Cache(input=working)))
                return _Kept(working, None, working, None, node.on(working), mixed)
            if not isinstance(working, Map) or not _may_be_kept(working) or changes_between_epochs(working.fn):
                return None
            fixed, result = cached_before_mixing(working, None, on_disk=False)
            if _first_shuffle(result) is not None:
                # It stood before the work: the map decides whether something would wait.
                return None
            mixed = _mixing(node, fixed).on(substitute(node.input, working, result))
            return _Kept(working, working.fn, fixed, None, node.on(read_once(working, fixed.input)), mixed)
        case Map() if _may_be_kept(node):
            try:
                parts = split_fixed_part(node.fn)
            except IllegalCutError:
                return None
            if parts is None and changes_between_epochs(node.fn):
                return None
            fixed, result = cached_before_mixing(node, parts, on_disk=False)
            mixing = _first_shuffle(result)
            if mixing is None or not _mixes_anew(mixing):
                return None
            after = substitute(result, mixing, _mixing(mixing, fixed))
            return _Kept(node, node.fn, fixed, parts, read_once(node, fixed.input), after)
    return None


def _may_be_kept(mapped: Map) -> bool:
    return mapped.one_for_one and does_work(mapped.fn)


def _mixes_anew(shuffle: Shuffle) -> bool:
    return shuffle.mixes_anew and not shuffle.seeded and shuffle.while_filling is None


def _mixing(shuffle: Shuffle, kept: Node) -> Shuffle:
    """Return what replaces a shuffle, so that orders differ as much between epochs as they did."""
    if not any(isinstance(stage, Shuffle) and stage.mixes for stage in walk(kept)):
        return shuffle
    return replace(shuffle, buffer_size=ALL_ELEMENTS, while_filling=shuffle.buffer_size)


def _before(shuffle: Shuffle) -> Node:
    """Return the stage whose elements a shuffle gets, skipping those that only buffer them."""
    return past(shuffle.input, Prefetch | Options)


def _first_shuffle(result: Node) -> Shuffle | None:
    """Return the first shuffle after the cache."""
    found = None
    for stage in walk(result):
        if isinstance(stage, Cache):
            break
        found = stage if isinstance(stage, Shuffle) else found
    return found
