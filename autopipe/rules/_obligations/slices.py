"""What must be proved to pass on slices of batches without a copy."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.rules._base import Proof, Site
from autopipe.rules._obligations.measured import WHOLE_EPOCH, NotMuchLarger

__all__ = ["HoldsFewWhole"]

# Stages that pass on all slices, or copy them.
_HOLDING_NEIGHBOURS = (
    ir.AssertCardinality | ir.Batching | ir.Cache | ir.Concatenate | ir.End | ir.Enumerate | ir.IgnoreErrors
    | ir.Mapping | ir.Options | ir.Prefetch | ir.Rebatch | ir.Repeat | ir.ThreadPool | ir.Zip
)  # fmt: skip


@dataclass(frozen=True)
class HoldsFewWhole:
    """If slices of batches are held, the whole batches they keep alive take little more memory.

    If no stage holds any, this needs no time to measure.

    Args:
        batches: the batches that are passed on in slices, without a copy.
        parts: the slices.
    """

    batches: ir.Node = field(repr=False)
    parts: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look downstream for stages that hold some slices and not their neighbours; only then is a sample run."""
        downstream = (node for node in trees.walk(site.pipeline) if site.node in list(trees.walk(node))[1:])
        most = max(map(_most_held_apart, downstream), default=0)
        return NotMuchLarger(self.batches, than=self.parts, count=most).check(site) if most else Proof(True, "")


def _most_held_apart(node: ir.Node) -> int:
    """Return the most elements that may be held while others of their batches are not."""
    match node:
        case ir.Shuffle():
            return int(min(node.capacity, WHOLE_EPOCH))
        case ir.Take() | ir.TakeWhile() | ir.Skip():
            return 1
    # A cache, the author's or one that a rule adds, may hold all slices that other stages, such as filters, let pass.
    return 0 if isinstance(node, _HOLDING_NEIGHBOURS) else WHOLE_EPOCH
