from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.function import Function
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import split_fixed_part
from autopipe.functions.parts.sides import sides_with_work, split_by_sides
from autopipe.pipeline.ir import Enumerate, IgnoreErrors, Map, Node, Zip
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._caching import cached_before_mixing
from autopipe.rules._memoizing import LEAST_SAVED_SECONDS, memoized, moved_since, numbered
from autopipe.rules._obligations import (
    FitsMemory,
    NoCacheServes,
    NoNewReadAhead,
    NotCachedYet,
    NotSameTogether,
    OrdinaryTypes,
    PlainTensors,
    RoundingUnseen,
    SameNumbers,
    StartsSoon,
    WorkOnSides,
    WorthCaching,
)
from autopipe.rules._rounding import up_to_rounding
from autopipe.rules._sides import on_side, sides_to_keep


@rule(keeps=Keeps.SEQUENCE)
def cache_zipped_results(node: Node) -> Rewrite | None:
    """zip(a, b | shuffle) | map(f)  ->  zip(a | enumerate, b | enumerate | shuffle) | memoized_map(f of a) | map(rest)

    Where one side is shuffled by itself, as the negatives of triplets are, each epoch makes other pairs, and a cache of
    the pairs is of no use. But what f does with one side alone, such as reading and decoding its image, is the same in
    every epoch: each side is numbered upstream, where it still has the same elements, and what f gives for a number of
    that side is kept. What needs several sides, or draws, runs again. So does all that f does with a side that has no
    end or is drawn anew, and beside one of data also with one of counted numbers, such as the seeds of an augmentation.
    The numbers of an ``enumerate`` after the shuffle are such a side. It needs: plain tensors, on each side of which
    results are kept what ``cache_results`` needs and, where it leaves work of a side to each epoch, that
    ``cache_results`` cannot keep what f gives for the pairs.
    """
    if not isinstance(node, Map) or not node.one_for_one:
        return None
    zipped, moved = moved_since(node.input)
    if not isinstance(zipped, Enumerate | Zip):
        return None
    if any(type(part).__name__ == "NoneTensorSpec" for part in signature(zipped).flat_specs):
        return None
    try:
        kept = _kept(node, zipped, moved)
    except IllegalCutError:
        return None
    if kept is None:
        return None
    parts = tuple(each.fn for each in kept.worked)
    same = [SameNumbers(each.fn, each.elements) for each in kept.worked]
    pairs = numbered(node.input)
    soon = StartsSoon(*_cached(node))
    first, *others = (each.results for each in kept.worked)
    provided: tuple[Obligation, ...] = (
        WorkOnSides(node.fn, parts),
        NoCacheServes(soon, same[0]),
        *([NotSameTogether(replace(same[0], elements=pairs.elements), pairs.source)] if kept.leaves_more else []),
        PlainTensors(zipped),
        *(OrdinaryTypes(each.results) for each in kept.worked),
        NotCachedYet(node),
        *(on_side(each.name, needed) for each, needed in zip(kept.worked, same, strict=True)),
        NoNewReadAhead(node),
        *(
            on_side(each.name, WorthCaching(IgnoreErrors(input=each.results), LEAST_SAVED_SECONDS))
            for each in kept.worked
        ),
        FitsMemory(first, tuple(others)),
    )
    exact = rounds_alike(node.fn, *parts, kept.rest)
    return up_to_rounding(kept.after, provided, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(node.fn)))


def _cached(node: Map) -> tuple[Map, Node]:
    """Return what a cache of the pairs would hold, and what would then become of the map."""
    try:
        parts = split_fixed_part(node.fn)
    except IllegalCutError:
        parts = None
    return cached_before_mixing(node, parts, on_disk=False)


class _Worked(NamedTuple):
    """A side with work of which results are kept.

    Attributes:
        name: the name of the side.
        fn: the work on it alone.
        elements: its elements with their numbers.
        results: the results that are kept once every element was read.
    """

    name: str
    fn: Function
    elements: Node
    results: Enumerate


class _Kept(NamedTuple):
    """What becomes of a map.

    Attributes:
        worked: the sides whose results are kept.
        rest: the function of the results.
        after: what replaces the site.
        leaves_more: whether the rest may do work that is the same in every epoch for the same combination of elements.
    """

    worked: list[_Worked]
    rest: Function
    after: Node
    leaves_more: bool


def _kept(node: Map, zipped: Enumerate | Zip, moved: list[Node]) -> _Kept | None:
    given: tuple[Node | None, ...] = zipped.parts if isinstance(zipped, Zip) else (None, zipped.input)
    widths = tuple(1 if side is None else len(signature(side).flat_specs) for side in given)
    keeping = sides_to_keep(node.fn, given, widths)
    found = split_by_sides(node.fn, widths, keeping) if keeping else None
    if found is None:
        return None
    parts, rest = found
    sides = [numbered(side) if side and part else None for part, side in zip(parts, given, strict=True)]
    after: Node = zipped.on(*(side.elements if side else each for side, each in zip(sides, given, strict=True) if each))
    for stage in reversed(moved):
        after = stage.on(after)
    worked = []
    for number, (part, side, ahead) in enumerate(zip(parts, sides, _ahead(parts, widths), strict=True), 1):
        if part and side:
            after = memoized(node, part, after, side.source, ahead=ahead)
            name = f"side {number} of the zip" if isinstance(zipped, Zip) else "what is enumerated"
            worked.append(_Worked(name, part, side.elements, after.kept))
    after = replace(node, fn=rest, input=after)
    leaves_more = isinstance(zipped, Enumerate) or keeping != sides_with_work(node.fn, widths)
    return _Kept(worked, rest, after, leaves_more)


def _ahead(parts: Sequence[Function | None], widths: Sequence[int]) -> list[int]:
    """Return how many tensors stand before each side, once those before it are replaced by their results."""
    made = [len(part.element_types) if part else width for part, width in zip(parts, widths, strict=True)]
    return [0, *accumulate(made)][:-1]
