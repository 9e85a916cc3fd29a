"""What must be proved about how far a pipeline is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules._base import Proof, Site

__all__ = ["ReadToItsEnd", "read_once", "who_stops_early"]

# Stages that give as many elements as they take.
_AS_MANY = (
    ir.AssertCardinality | ir.Cache | ir.Enumerate | ir.Options | ir.Prefetch | ir.Scan | ir.Shuffle | ir.ThreadPool
)  # fmt: skip


@dataclass(frozen=True)
class ReadToItsEnd:
    """No stage downstream stops before the end of what is cached: TensorFlow discards a cache that is not full.

    Args:
        cached: what is cached.
        one_pass: what the site gives while the cache is read once; by default its stage, read once over what is cached.
    """

    cached: ir.Node = field(repr=False)
    one_pass: ir.Node | None = field(default=None, repr=False)

    def check(self, site: Site) -> Proof:
        """Look for stages that leave out the end of their input, and count elements."""
        # Elements of the site's own type: later stages might not accept those of the cache.
        one_pass = self.one_pass or read_once(site.node, *self.cached.inputs)

        def once(node: ir.Node) -> ir.Node:
            repeats = isinstance(node, ir.Repeat) and one_pass in trees.walk(node)
            return node.inputs[0] if repeats else node

        def passing(end: ir.Node) -> int:
            """Return how many elements reach a place while the cache is read once."""
            return signature(trees.transform(trees.substitute(end, site.node, one_pass), once)).cardinality

        early = who_stops_early(site, passing)
        if early is None:
            return Proof(True, "every epoch reads it to its end")
        return Proof(False, f"{stage(early)} may stop before its end, and a cache that is not full is discarded")


def read_once(node: ir.Node, *inputs: ir.Node) -> ir.Node:
    """Return a stage over what a cache upstream gives, with what its author asserts about their number.

    An assertion after a repeat is about several epochs, and is left out.

    Args:
        node: the stage.
        inputs: what the cache gives to it, without the stages in between that mix or repeat elements.
    """
    if len(inputs) != 1 or len(node.inputs) != 1:
        return node.on(*inputs)
    asserted: list[ir.AssertCardinality] = []
    kept, below = list(trees.walk(inputs[0])), node.inputs[0]
    while below not in kept and len(below.inputs) == 1:
        if isinstance(below, ir.Repeat):
            asserted = []
        elif isinstance(below, ir.AssertCardinality):
            asserted.append(below)
        below = below.inputs[0]
    made = inputs[0]
    for each in reversed(asserted):
        made = each.on(made)
    return node.on(made)


def who_stops_early(
    site: Site, passing: Callable[[ir.Node], int] = lambda end: signature(end).cardinality
) -> ir.Node | None:
    """Return a stage that may leave out the end of what comes from a site; ``None`` if there is none.

    Args:
        site: the site.
        passing: returns how many elements reach the end of a pipeline that contains the site; by default all.
    """
    return next((node for node, read in _readers(site) if _stops_early(node, read, passing)), None)


def _readers(site: Site) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield every stage downstream of a site, with the input that comes from there."""
    holding: set[int] = set()
    for node in trees.inputs_first(site.pipeline):
        if node == site.node or any(id(read) in holding for read in node.inputs):
            holding.add(id(node))
    for node in trees.walk(site.pipeline):
        yield from ((node, read) for read in node.inputs if id(read) in holding)


def _stops_early(node: ir.Node, read: ir.Node, passing: Callable[[ir.Node], int]) -> bool:
    match node:
        case ir.Take(takes_all=False, count=count):
            return not 0 <= passing(read) <= count
        case ir.TakeWhile():
            return True
        case ir.Zip():
            return not all(_lasts(other, read, passing) for other in node.inputs if other is not read)
        case ir.ChooseFrom(choices=choices, parts=parts, stop_on_empty=stops):
            ends = stops and not all(signature(part).is_infinite for part in parts)
            return read is choices or ends or not signature(choices).is_infinite
    return False


def _lasts(other: ir.Node, read: ir.Node, passing: Callable[[ir.Node], int]) -> bool:
    """Return whether a pipeline has at least as many elements as another one."""
    there = signature(other)
    if there.is_infinite or _numbered(other) == _numbered(read):
        return True
    return 0 <= passing(read) <= there.cardinality


def _numbered(node: ir.Node) -> ir.Node:
    """Return the stage that decides how many elements there are."""
    while isinstance(node, _AS_MANY) or (isinstance(node, ir.Map) and node.preserve_cardinality):
        node = node.inputs[0]
    return node
