"""Findings about caches: what they freeze, what they miss, and what they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autopipe.figures import bytes_text
from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rows import who_mixes_rows
from autopipe.functions.function import Function
from autopipe.functions.parts.fixed_part import split_before_growth
from autopipe.pipeline import ir, trees
from autopipe.pipeline.shared_caches import who_takes_a_part
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.planning.measuring.count import most_elements
from autopipe.planning.memory.machine import Machine
from autopipe.report.findings._base import Finding, Look, Seen, at, before, held_bytes
from autopipe.rules import MeasurementError

__all__ = ["LOOKS"]

_MUCH_WORK = 0.2
# A batch that takes longer than this is worth caching.
_LONG_FOR_BATCH = 1e-3


def cache_after_random(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP102: a cache of random draws."""
    if not isinstance(node, ir.Cache):
        return
    for drawing in (fn for fn in trees.functions(node.input) if _draws(fn)):
        yield at(
            node,
            "AP102",
            f"it stores what {drawing} drew in the first epoch, so every epoch sees the same augmentation",
            "put the cache before the random function",
        )


def cache_after_shuffle(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP103: a cache of one order."""
    if not isinstance(node, ir.Cache) or _is_shuffled_whole(node, seen.tree):
        return
    taking = who_takes_a_part(node, seen.tree)
    remedy = "put the cache before the shuffle"
    if taking is not None:
        # Data that are split after the cache must stay split.
        remedy = f"give it reshuffle_each_iteration=False, and put the cache after {stage(taking)}"
    for shuffle in (each for each in trees.walk(node.input) if isinstance(each, ir.Shuffle) and each.mixes_anew):
        yield at(
            node,
            "AP103",
            f"it stores the order that {stage(shuffle)} gave in the first epoch, so every epoch has that order",
            remedy,
        )


def cache_after_repeat(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP104: a cache of an endless pipeline."""
    if not isinstance(node, ir.Cache):
        return
    if _is_endless(node.input):
        place = "memory" if node.in_memory else "the disk"
        yield at(
            node,
            "AP104",
            f"it stores an endless pipeline, so it grows until {place} is full and is never read",
            "put the cache before the repeat",
        )


def cache_before_costly_map(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP110: work that is the same in every epoch, after the cache."""
    if not isinstance(node, ir.Map) or not effects(node.fn).pure:
        return
    cost = seen.cost(node)
    between = before(node)
    while isinstance(between, ir.Map | ir.Shuffle | ir.Prefetch) and _only_computes(between):
        between = before(between)
    if isinstance(between, ir.Cache) and cost is not None and cost.share >= _MUCH_WORK:
        yield at(
            node,
            "AP110",
            f"it does the same work in every epoch, {cost.share:.0%} of all, behind {stage(between)}",
            "put the cache after it",
            f"up to {cost.share:.0%} of the work from the second epoch on",
        )


def cache_read_in_part(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP111: a cache whose elements are not all taken, so that it is never complete."""
    if not isinstance(node, ir.Take) or node.takes_all:
        return
    cache = before(node)
    if isinstance(cache, ir.Cache) and not 0 <= signature(cache).cardinality <= node.count:
        yield at(
            cache,
            "AP111",
            f"{stage(node)} may stop before its end, and a cache that is not filled to its end is discarded",
            "put the take before the cache",
        )


def cache_beyond_memory(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP112: a cache that does not fit."""
    if not trees.is_memory_cache(node):
        return
    available = Machine.here().available_bytes
    size = held_bytes(node, seen)
    if size is not None and size > available:
        yield at(
            node,
            "AP112",
            f"it needs {bytes_text(size)}, and {bytes_text(available)} of memory are available",
            "cache less: before the map that makes elements large, or in a file with cache(filename)",
        )


def cache_of_wide_numbers(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP113: a cache of floats that were bytes."""
    match node:
        case ir.Cache(input=ir.Map(fn=fn)) if effects(fn).pure and _ends_in_wider_numbers(fn):
            yield at(
                node,
                "AP113",
                f"{fn} ends in arithmetic that makes elements larger, and the cache holds the result",
                "cache before that arithmetic: a cast and a scaling cost less than the memory",
            )


def work_on_mixed_batches(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP114: work that is the same in every epoch, on batches that are not, and whose rows cannot be kept."""
    cost = seen.cost(node)
    if not isinstance(node, ir.Map) or not effects(node.fn).pure or cost is None or cost.share < _MUCH_WORK:
        return
    batch = _batch_below(node)
    shuffle = None if batch is None else _mixing_before(batch)
    mixing = stage(batch) if isinstance(batch, ir.PaddedBatch) else who_mixes_rows(node.fn)
    if (
        shuffle is None
        or mixing is None
        or cost.seconds_per_element < _LONG_FOR_BATCH
        or any(map(_draws, trees.functions(shuffle)))
    ):
        return
    yield at(
        node,
        "AP114",
        f"it does {cost.share:.0%} of the work, in every epoch, on batches that {stage(shuffle)} mixes anew, and what "
        f"it makes of an element may depend on others in its batch: {mixing}",
        "if it does not, map elements before the shuffle: there optimize() can cache them",
        f"up to {cost.share:.0%} of the work from the second epoch on",
    )


LOOKS: Mapping[str, Look] = {
    "AP102": cache_after_random,
    "AP103": cache_after_shuffle,
    "AP104": cache_after_repeat,
    "AP110": cache_before_costly_map,
    "AP111": cache_read_in_part,
    "AP112": cache_beyond_memory,
    "AP113": cache_of_wide_numbers,
    "AP114": work_on_mixed_batches,
}


def _batch_below(mapped: ir.Map) -> ir.Batching | None:
    """Return what makes the batches that a map takes, with only such maps between."""
    batch = before(mapped)
    while isinstance(batch, ir.Map) and _only_computes(batch):
        batch = before(batch)
    return batch if isinstance(batch, ir.Batching) else None


def _mixing_before(batch: ir.Batching) -> ir.Shuffle | None:
    """Return the shuffle that mixes elements anew for the batches."""
    mixed = before(batch)
    while isinstance(mixed, ir.Repeat) or (isinstance(mixed, ir.Shuffle) and not mixed.mixes_anew):
        mixed = before(mixed)
    return mixed if isinstance(mixed, ir.Shuffle) else None


def _is_shuffled_whole(cache: ir.Cache, tree: ir.Node) -> bool:
    """Return whether each epoch puts all elements of a cache into an order of its own."""
    try:
        count = most_elements(cache)
    except MeasurementError:
        return False
    shuffles = (each for each in trees.walk(tree) if isinstance(each, ir.Shuffle) and each.mixes_anew)
    return any(each.capacity >= count and _is_handed_on(cache, each.input) for each in shuffles)


def _is_handed_on(cache: ir.Cache, to: ir.Node) -> bool:
    return trees.past(to, ir.Map | ir.Filter | ir.Prefetch | ir.Options | ir.ThreadPool) == cache


def _is_endless(node: ir.Node) -> bool:
    match node:
        case ir.Repeat(is_infinite=True):
            return True
        case ir.Take(takes_all=False):
            return False
        case ir.TakeWhile():
            return False
        case ir.Zip():
            return all(map(_is_endless, node.inputs))
        case ir.ChooseFrom(parts=parts, choices=choices, stop_on_empty=stops):
            ends = all if stops else any
            return _is_endless(choices) and ends(map(_is_endless, parts))
        case ir.RandomNumbers():
            return True
    return any(map(_is_endless, node.inputs))


def _only_computes(node: ir.Node) -> bool:
    return all(effects(fn).pure for fn in trees.called_by(node))


def _ends_in_wider_numbers(fn: Function) -> bool:
    """Return whether arithmetic makes elements larger by a cast: slices of a tensor that overlap are larger too."""
    parts = split_before_growth(fn)
    return parts is not None and any(op.type == "Cast" for op in parts[1].concrete.graph.get_operations())


def _draws(fn: Function) -> bool:
    found = effects(fn)
    return bool(found.unseeded_random or found.seeded_random or found.generator)
