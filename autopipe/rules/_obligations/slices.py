"""What must be proved where parts of batches are handed on without a copy."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.rules._base import Proof, Site
from autopipe.rules._obligations.measured import WHOLE_EPOCH, NotMuchLarger

__all__ = ["HoldsFewWhole"]


@dataclass(frozen=True)
class HoldsFewWhole:
    """Where parts of batches are held, those batches take little more memory, though each part holds the whole of one.

    Where nothing holds any, it can be asked for with no time to measure.

    Args:
        batches: what is handed on in parts, without a copy.
        parts: those parts.
    """

    batches: ir.Node = field(repr=False)
    parts: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look downstream for what holds some parts and not their neighbours; only then is a sample run."""
        downstream = (node for node in trees.walk(site.pipeline) if site.node in list(trees.walk(node))[1:])
        most = max(map(_most_held_apart, downstream), default=0)
        return NotMuchLarger(self.batches, than=self.parts, count=most).check(site) if most else Proof(True, "")


def _most_held_apart(node: ir.Node) -> int:
    """Return how many elements may be held of which others in the same batch are not, at the most."""
    match node:
        case ir.Filter() | ir.Shard():
            # A cache after it may hold all that it lets pass, the author's or one that a rule adds.
            return WHOLE_EPOCH
        case ir.Shuffle():
            return int(min(node.capacity, WHOLE_EPOCH))
        case ir.Take() | ir.TakeWhile() | ir.Skip():
            return 1
    return 0
