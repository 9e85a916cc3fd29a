"""Caches before stages that mix elements, and of the part of a map that is the same in every epoch."""

from dataclasses import replace

from autopipe.functions.analysis.work import does_work
from autopipe.functions.function import Function
from autopipe.functions.parts.fixed_part import changes_between_epochs
from autopipe.pipeline.ir import Cache, Map, Node, PassingOn, Repeat, Shuffle
from autopipe.pipeline.trees import past

__all__ = ["before_mixing", "cached_before_mixing", "fixed_before_mixing", "nothing_to_keep"]


def before_mixing(node: Node) -> Node:
    """Return the source of elements, before the stages that only mix or repeat them."""
    return past(node, Shuffle | Repeat)


def nothing_to_keep(fn: Function, parts: tuple[Function, Function] | None) -> bool:
    """Return whether a function that is not cut does nothing that a cache could keep."""
    return parts is None and (changes_between_epochs(fn) or not does_work(fn))


def cached_before_mixing(node: Map, parts: tuple[Function, Function] | None, *, on_disk: bool) -> tuple[Map, Node]:
    """Return the cached part of a map, and what replaces the map: the cache, and the rest after it.

    Args:
        node: the map.
        parts: its function, cut in two; ``None`` to cache it whole.
        on_disk: whether the cache is kept in a folder that the user named.
    """
    source, passed = fixed_before_mixing(node.input)
    fixed = replace(node, fn=parts[0] if parts else node.fn, input=source)
    result: Node = Cache(input=fixed, on_disk=on_disk)
    for stage in reversed(passed):
        result = _noting_where_it_stood(stage).on(result)
    return fixed, replace(node, fn=parts[1], input=result) if parts else result


def _noting_where_it_stood(stage: Node) -> Node:
    """Return a stage that goes after a cache; a shuffle may stand before the work again while the cache fills."""
    if not isinstance(stage, Shuffle) or stage.seeded or not stage.mixes_anew:
        return stage
    # Of two shuffles in a row only the first one moves.
    before = past(stage.input, PassingOn)
    return stage if isinstance(before, Cache | Map | Repeat | Shuffle) else replace(stage, from_before_the_work=True)


def fixed_before_mixing(node: Node) -> tuple[Node, list[Node]]:
    """Return the source of elements, and the stages after it that only mix, repeat or count them.

    Maps among these that give the same in every epoch move before them. Memory caches are dropped, except one that
    keeps the order of a shuffle, which would be lost without it.
    """
    fixed: list[Map] = []
    passed: list[Node] = []
    cached = False
    while True:
        match node:
            case Shuffle() | Repeat() if cached:
                break
            case _ if isinstance(node, Shuffle | Repeat | PassingOn):
                passed.append(node)
            case Map(one_for_one_in_order=True) if not changes_between_epochs(node.fn):
                fixed.append(node)
            case Cache(in_memory=True):
                cached = True
            case _:
                break
        node = node.input
    for mapped in reversed(fixed):
        node = mapped.on(node)
    return node, passed
