"""Branches that read equal elements in step, as one pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.joined.beside import Beside, Side, beside
from autopipe.functions.joined.losing import losing_errors
from autopipe.pipeline.alike import alike, same_arguments
from autopipe.pipeline.ir import Batch, Map, Node, Options, Prefetch, Repeat, Shard, Shuffle, Skip, Take, Zip
from autopipe.pipeline.signature import signature
from autopipe.pipeline.trees import past

__all__ = ["Joined", "join_sides"]

# Their effect depends on the number of elements before, and not on the elements.
_IN_STEP = (Batch, Options, Repeat, Shard, Shuffle, Skip, Take)


@dataclass(frozen=True)
class Joined:
    """Sides as one pipeline.

    Attributes:
        sources: what each side reads; the sources are alike.
        after: the joined pipeline.
        functions: the functions of their maps.
        merged: the functions that replace them.
        losing: the functions whose possible failures a later one on their side ignores.
    """

    sources: tuple[Node, ...]
    after: Node
    functions: tuple[Function, ...] = ()
    merged: tuple[Beside, ...] = ()
    losing: tuple[Function, ...] = ()


def join_sides(zipped: Zip, ends: Sequence[Node]) -> Joined | None:
    """Return sides as one pipeline, whose elements are those that ``zipped`` makes of theirs; ``None`` if they differ.

    Args:
        zipped: how elements stand side by side.
        ends: the last stage of each side, or of the part considered.
    """
    tops = [past(end, Prefetch) for end in ends]
    maps = [_maps_at_end(top) for top in tops]
    starts = [past(each[-1].input, Prefetch) if each else top for each, top in zip(maps, tops, strict=True)]
    if not all(map(_is_plain, (*tops, *starts))):
        return None
    first, *others = starts
    equal = all(alike(first, each) for each in others)
    below = Joined(tuple(starts), first) if equal else _in_step(zipped, starts)
    if below is None or not _have_equal_arguments([each for side in maps for each in side]):
        return None
    functions = [tuple(each.fn for each in reversed(side)) for side in maps]
    if not any(functions):
        return None if equal else below
    taken = [slice(None)] * len(starts) if equal else _one_after_the_other(starts)
    given = signature(below.after).element_spec
    merged = beside(list(map(Side, functions, taken)), signature(below.after).flat_specs, given, _spec(zipped, tops))
    model = next(side[0] for side in maps if side)
    called = tuple(fn for side in functions for fn in side)
    losing = tuple(fn for side in functions for fn in losing_errors(side))
    return Joined(
        below.sources,
        after=replace(model, fn=merged.fn, input=below.after),
        functions=(*below.functions, *called),
        merged=(*below.merged, merged),
        losing=(*below.losing, *losing),
    )


def _in_step(zipped: Zip, starts: Sequence[Node]) -> Joined | None:
    """Return sides as one if they end with a stage that does the same on each, whatever their elements are."""
    first, *others = starts
    if not isinstance(first, _IN_STEP) or not all(same_arguments(first, each) for each in others):
        return None
    if isinstance(first, Shuffle) and first.mixes and not first.seeded:
        return None
    below = join_sides(zipped, [start.inputs[0] for start in starts])
    return None if below is None else replace(below, after=first.on(below.after))


def _maps_at_end(node: Node) -> list[Map]:
    """Return the maps that a side ends with, the last one first."""
    maps = []
    while isinstance(node, Map) and node.one_for_one_in_order:
        maps.append(node)
        node = past(node.input, Prefetch)
    return maps


def _is_plain(node: Node) -> bool:
    return all(isinstance(each, tf.TensorSpec) and each.dtype != tf.variant for each in signature(node).flat_specs)


def _have_equal_arguments(maps: Sequence[Map]) -> bool:
    return all(same_arguments(replace(each, fn=maps[0].fn), maps[0]) for each in maps)


def _one_after_the_other(sides: Sequence[Node]) -> list[slice]:
    """Return which of the joined tensors belong to each side."""
    return [slice(*ends) for ends in pairwise([0, *accumulate(len(signature(side).flat_specs) for side in sides)])]


def _spec(zipped: Zip, sides: Sequence[Node]) -> Any:
    return tf.nest.pack_sequence_as(zipped.structure, [signature(side).element_spec for side in sides])
