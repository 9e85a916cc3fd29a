"""What must be proved about how far a pipeline is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules._base import Proof, Site

__all__ = ["ReadToItsEnd"]

_ENDLESS = -1
# Each gives as many elements as it takes.
_AS_MANY = (ir.Cache, ir.Enumerate, ir.Options, ir.Prefetch, ir.Shuffle, ir.ThreadPool)


@dataclass(frozen=True)
class ReadToItsEnd:
    """No stage downstream stops before the end of what is cached: TensorFlow throws away a cache that is not full."""

    cached: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for stages that leave out the end of what they read, and count."""
        for node in trees.walk(site.pipeline):
            for read in node.inputs:
                if site.node in trees.walk(read) and not self._is_read(node, read, site):
                    return Proof(
                        False, f"{stage(node)} may stop before its end, and a cache that is not full is thrown away"
                    )
        return Proof(True, "every epoch reads it to its end")

    def _is_read(self, node: ir.Node, read: ir.Node, site: Site) -> bool:
        """Return whether a stage reads one of its inputs to its end, or once through where it is repeated."""
        match node:
            case ir.Take(count=count) if count >= 0:
                return 0 <= self._in_one_pass(read, site) <= count
            case ir.Zip():
                return all(self._is_read_beside(other, read, site) for other in node.inputs if other is not read)
        return True

    def _is_read_beside(self, other: ir.Node, read: ir.Node, site: Site) -> bool:
        most = signature(other).cardinality
        if most == _ENDLESS or _numbered(other) == _numbered(read):
            return True
        return 0 <= self._in_one_pass(read, site) <= most

    def _in_one_pass(self, end: ir.Node, site: Site) -> int:
        """Return how many elements come to a place while the cache is read once."""

        def once(node: ir.Node) -> ir.Node:
            repeats = isinstance(node, ir.Repeat) and self.cached in trees.walk(node)
            return node.inputs[0] if repeats else node

        return signature(trees.transform(trees.substitute(end, site.node, self.cached), once)).cardinality


def _numbered(node: ir.Node) -> ir.Node:
    """Return the stage that decides how many elements there are."""
    while isinstance(node, _AS_MANY) or (isinstance(node, ir.Map) and node.preserve_cardinality):
        node = node.inputs[0]
    return node
