from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.function import Function
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.sides import split_by_sides
from autopipe.pipeline.ir import Enumerate, IgnoreErrors, Map, Node, Zip
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._caching import fixed_before_mixing
from autopipe.rules._memoizing import LEAST_SAVED_SECONDS, Numbered, memoized, moved_since, numbered
from autopipe.rules._obligations import (
    FitsMemory,
    NoCacheServes,
    NoNewReadAhead,
    NotCachedYet,
    OrdinaryTypes,
    PlainTensors,
    RoundingUnseen,
    SameNumbers,
    WorkOnSides,
    WorthCaching,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def cache_zipped_results(node: Node) -> Rewrite | None:
    """zip(a, b | shuffle) | map(f)  ->  zip(a | enumerate, b | enumerate | shuffle) | memoized_map(f of a) | map(rest)

    Where one side is shuffled by itself, as the negatives of triplets are, each epoch makes other pairs, and a cache of
    the pairs is of no use. But what f does with one side alone, such as reading and decoding its image, is the same in
    every epoch: each side is numbered upstream, where it still has the same elements, and what f gives for a number of
    that side is kept. What needs several sides, or draws, runs again. It needs: plain tensors, and on each side with
    such work what ``cache_results`` needs.
    """
    if not isinstance(node, Map) or not node.one_for_one:
        return None
    zipped, moved = moved_since(node.input)
    if not isinstance(zipped, Zip):
        return None
    if any(type(part).__name__ == "NoneTensorSpec" for part in signature(zipped).flat_specs):
        return None
    try:
        kept = _kept(node, zipped, moved)
    except IllegalCutError:
        return None
    if kept is None:
        return None
    mixed, _ = fixed_before_mixing(node.input)
    parts = tuple(part for part, _ in kept.worked)
    same = [SameNumbers(part, elements) for part, elements in kept.worked]
    first, *others = kept.results
    provided: tuple[Obligation, ...] = (
        WorkOnSides(node.fn, parts),
        NoCacheServes(replace(node, fn=parts[0], input=mixed), same[0]),
        PlainTensors(zipped),
        *map(OrdinaryTypes, kept.results),
        NotCachedYet(node),
        *same,
        NoNewReadAhead(node),
        *(WorthCaching(IgnoreErrors(input=each), LEAST_SAVED_SECONDS) for each in kept.results),
        FitsMemory(first, tuple(others)),
    )
    exact = rounds_alike(node.fn, *parts, kept.rest)
    return up_to_rounding(kept.after, provided, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(node.fn)))


class _Kept(NamedTuple):
    """What becomes of a map.

    Attributes:
        worked: what it does with each side that it does work on alone, and the elements there with their numbers.
        results: what is kept of each of these once every element was read.
        rest: what is done with the results.
        after: what becomes of the site.
    """

    worked: list[tuple[Function, Node]]
    results: list[Enumerate]
    rest: Function
    after: Node


def _kept(node: Map, zipped: Zip, moved: list[Node]) -> _Kept | None:
    widths = tuple(len(signature(side).flat_specs) for side in zipped.parts)
    found = split_by_sides(node.fn, widths)
    if found is None:
        return None
    parts, rest = found
    sides = [numbered(side) if part else Numbered(side, side) for part, side in zip(parts, zipped.parts, strict=True)]
    after: Node = zipped.on(*(side.elements for side in sides))
    for stage in reversed(moved):
        after = stage.on(after)
    worked, results = [], []
    for part, side, ahead in zip(parts, sides, _ahead(parts, widths), strict=True):
        if part:
            after = memoized(node, part, after, side.source, ahead=ahead)
            worked.append((part, side.elements))
            results.append(after.kept)
    return _Kept(worked, results, rest, after=replace(node, fn=rest, input=after))


def _ahead(parts: Sequence[Function | None], widths: Sequence[int]) -> list[int]:
    """Return how many tensors stand before each side, once those before it are replaced by their results."""
    made = [len(part.element_types) if part else width for part, width in zip(parts, widths, strict=True)]
    return [0, *accumulate(made)][:-1]
