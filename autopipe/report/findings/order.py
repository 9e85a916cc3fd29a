"""Findings about the order of elements, and the memory that shuffling takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autopipe.figures import bytes_text
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import Signature, signature
from autopipe.pipeline.text import stage
from autopipe.planning.measuring.count import most_elements
from autopipe.planning.memory.machine import Machine
from autopipe.report.findings._base import Finding, Look, Seen, at, before, held_bytes
from autopipe.rules import MeasurementError

__all__ = ["LOOKS"]

_MUCH_MEMORY = 64 * 2**20
_MUCH_LARGER = 4.0
_SHARE_OF_MEMORY = 0.25
_SHARE_OF_DATA = 0.5
# The share that counts if only the largest possible number of elements is known, which may be twice the real one.
_SHARE_OF_MOST = 0.25


def shuffle_after_batch(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP101: whole batches are shuffled."""
    if isinstance(node, ir.Shuffle) and isinstance(before(node), ir.Batching):
        yield at(
            node,
            "AP101",
            "it shuffles whole batches: the same elements meet in a batch in every epoch",
            "shuffle before batch, with a buffer as many times larger as a batch has elements",
        )


def shuffle_after_decode(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP106: the buffer holds what a map made, which is much larger than what it was made of."""
    if not isinstance(node, ir.Shuffle):
        return
    small = trees.past(node.input, ir.Map | ir.Prefetch)
    ours, theirs, held = seen.element_bytes(node), seen.element_bytes(small), held_bytes(node, seen, node.capacity)
    if not ours or not theirs or not held or ours < _MUCH_LARGER * theirs or held < _MUCH_MEMORY:
        return
    yield at(
        node,
        "AP106",
        f"its buffer holds {bytes_text(held)} of mapped elements, and {stage(small)} gives smaller ones",
        "shuffle before the map",
        f"{bytes_text(held * theirs / ours)} in place of {bytes_text(held)}",
    )


def shuffle_after_repeat(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP107: elements of one epoch are mixed with those of the next."""
    match before(node) if isinstance(node, ir.Shuffle) else None:
        case ir.Repeat(count=count) if count != 1:
            yield at(
                node,
                "AP107",
                "it mixes epochs: some elements come twice before others come once",
                "put the repeat after the shuffle",
            )


def small_buffer(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP108: a buffer that is much smaller than the data, with nothing else to mix it."""
    if not isinstance(node, ir.Shuffle) or isinstance(before(node), ir.Repeat | ir.Batching):
        return
    if any(isinstance(each, ir.Shuffle) for each in trees.walk(node.input)):
        return
    try:
        elements = most_elements(node.input)
    except MeasurementError:
        return
    known = signature(node.input).is_counted
    if node.capacity < (_SHARE_OF_DATA if known else _SHARE_OF_MOST) * elements:
        yield at(
            node,
            "AP108",
            f"its buffer is smaller than the {elements:,} elements{'' if known else ' that there may be'}: those far "
            "apart never meet in a batch, which hurts where the data is sorted, by class say",
            "make the buffer as large as the data, or shuffle the names of the files too",
        )


def large_buffer(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP109: a buffer that takes a large part of memory."""
    if not isinstance(node, ir.Shuffle):
        return
    held = held_bytes(node, seen, node.capacity)
    available = Machine.here().available_bytes
    if held is not None and held > _SHARE_OF_MEMORY * available:
        yield at(
            node,
            "AP109",
            f"its buffer takes up to {bytes_text(held)} of the {bytes_text(available)} of memory there is",
            "make the buffer smaller, or shuffle smaller elements: before they are decoded, or only their names",
        )


def sides_shuffled_apart(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP116: elements of two kinds, as images and labels, side by side in orders that have nothing in common.

    Sides of one kind may be meant so: MixUp takes pairs of examples that chance has brought together, and CycleGAN and
    domain adaptation those of two data sets, which may be labelled apart.
    """
    if not isinstance(node, ir.Zip):
        return
    ends = [signature(side) for side in node.parts]
    as_many = ends[0].cardinality > 0 and all(each.cardinality == ends[0].cardinality for each in ends)
    orders = [tuple(_orders(side)) for side in node.parts]
    if _are_of_one_kind(ends) or not as_many or not all(orders) or (len(set(orders)) == 1 and None not in orders[0]):
        return
    yield at(
        node,
        "AP116",
        "each of its sides is shuffled in an order of its own: elements side by side do not belong together",
        "shuffle after the zip, or give the shuffles of all sides the same seed",
    )


def _are_of_one_kind(sides: Sequence[Signature]) -> bool:
    """Return whether what comes first in the elements, which is what a model takes, is alike on all sides."""
    first, *others = (side.flat_specs[:1] for side in sides)
    return all(one.is_compatible_with(two) for other in others for one, two in zip(first, other, strict=False))


def _orders(side: ir.Node) -> Iterator[tuple[Any, ...] | None]:
    """Yield what decides each order that elements are brought into; ``None`` for one that nothing decides."""
    for each in trees.walk(side):
        if isinstance(each, ir.Shuffle) and each.mixes:
            yield (each.seeds, each.buffer_size, each.reshuffle_each_iteration) if each.seeded else None


LOOKS: Mapping[str, Look] = {
    "AP101": shuffle_after_batch,
    "AP106": shuffle_after_decode,
    "AP107": shuffle_after_repeat,
    "AP108": small_buffer,
    "AP109": large_buffer,
    "AP116": sides_shuffled_apart,
}
