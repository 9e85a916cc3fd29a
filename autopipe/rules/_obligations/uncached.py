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
    """A cache would do the same only if more held: a rule that adds one says what.

    Args:
        cached: what it would hold.
    """

    cached: ir.Map = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Ask what a cache takes; where one could stand, there is nothing to say."""
        for needed in (SameEveryEpoch(self.cached), NoErrorIsIgnored(), ReadToItsEnd(self.cached)):
            proof = needed.check(site)
            if not proof.holds:
                return Proof(True, f"no cache can serve: {proof.because}")
        return Proof(False, "")
