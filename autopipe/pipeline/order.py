"""Whether the order in which a stage gives its elements reaches anybody."""

from __future__ import annotations

from dataclasses import replace

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir, trees

__all__ = ["stages_of_free_order"]

# Each hands its elements on in the order in which it takes them.
_HANDING_ORDER_ON = (ir.Map, ir.Filter, ir.Prefetch, ir.ThreadPool)


def stages_of_free_order(shuffle: ir.Shuffle) -> tuple[ir.Node, ...]:
    """Return the stages upstream of a shuffle whose order nothing but the shuffle takes in.

    A batch, a ``take`` or a ``zip`` between makes something of the order, and ends the search; so does a function that
    draws from a seed, or counts.
    """
    found: list[ir.Node] = []
    node = shuffle.input
    while isinstance(node, (*_HANDING_ORDER_ON, ir.Interleave, ir.FilesReader, ir.Shuffle)):
        found.append(node)
        if not isinstance(node, _HANDING_ORDER_ON) or _looks_at_order(node):
            break
        node = node.input
    return tuple(found)


def _looks_at_order(node: ir.Node) -> bool:
    """Return whether what a stage makes of an element depends on those it has had before."""
    return not all(replace(effects(fn), unseeded_random=()).steady for fn in trees.called_by(node))
