"""What must be proved where something else than a cache keeps elements."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.pipeline import ir
from autopipe.rules._base import Proof, Site
from autopipe.rules._obligations.errors import NoErrorIsIgnored
from autopipe.rules._obligations.reading import ReadToItsEnd
from autopipe.rules._obligations.stages import SameEveryEpoch

__all__ = ["NoCacheServes"]


@dataclass(frozen=True)
class NoCacheServes:
    """A cache of the same work would need more to hold than is needed here.

    Args:
        cached: what the cache would keep.
        kept: what is kept here.
    """

    cached: ir.Map = field(repr=False)
    kept: ir.Map = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Ask what a cache takes; where it could stand, or what forbids it forbids both, there is no more to say."""
        for needed in (SameEveryEpoch(self.cached), NoErrorIsIgnored(), ReadToItsEnd(self.cached)):
            proof = needed.check(site)
            if not proof.holds:
                forbids_both = SameEveryEpoch(self.kept).check(site).because == proof.because
                return Proof(False, "") if forbids_both else Proof(True, f"no cache can serve: {proof.because}")
        return Proof(False, "")
