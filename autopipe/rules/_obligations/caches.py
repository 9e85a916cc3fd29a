"""What must be proved about caches that are there, or could be."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage
from autopipe.rules._base import Proof, Site
from autopipe.rules._obligations.epochs import SameEveryEpoch, SameNumbers
from autopipe.rules._obligations.errors import NoErrorIsIgnored
from autopipe.rules._obligations.reading import ReadToItsEnd

__all__ = ["DiskNamed", "InMemory", "NoCacheServes", "NotCachedYet", "OneReader"]


@dataclass(frozen=True)
class InMemory:
    """The cache holds elements in memory."""

    cache: ir.Cache

    def check(self, site: Site) -> Proof:
        """Refuse files: one that is there already holds the elements of the old place."""
        if self.cache.in_memory:
            return Proof(True, "the cache is in memory and starts empty")
        return Proof(False, f"the cache file {self.cache.filename!r} may already hold elements of the old place")


@dataclass(frozen=True)
class NotCachedYet:
    """No cache downstream keeps the results already."""

    stage: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for a cache above; where there is one, there is nothing to say."""
        caches = (node for node in trees.walk(site.pipeline) if isinstance(node, ir.Keeping))
        cached = any(self.stage in trees.walk(cache) for cache in caches)
        return Proof(False, "") if cached else Proof(True, "no cache keeps its results yet")


@dataclass(frozen=True)
class DiskNamed:
    """The user named a folder for caches."""

    def check(self, site: Site) -> Proof:
        """Ask; where there is none, there is nothing to say."""
        return Proof(site.measurements.disk_free is not None, "")


@dataclass(frozen=True)
class OneReader:
    """A stage is read in one place of the pipeline only."""

    node: ir.Node = field(repr=False)
    why: str = "a file cache can be read once"

    def check(self, site: Site) -> Proof:
        """Count: two readers would write one file, or no longer read the same from memory."""
        alone = sum(node == self.node for node in trees.walk(site.pipeline)) == 1
        return Proof(alone, "" if alone else f"{stage(self.node)} is read twice, and {self.why}")


@dataclass(frozen=True)
class NoCacheServes:
    """A cache of the same work would need more to hold than is needed here.

    Args:
        cached: what the cache would keep.
        instead: what is needed here.
    """

    cached: ir.Map = field(repr=False)
    instead: SameNumbers

    def check(self, site: Site) -> Proof:
        """Ask what a cache takes; where it could stand, or what forbids it forbids both, there is no more to say."""
        for needed in (SameEveryEpoch(self.cached), NoErrorIsIgnored(), ReadToItsEnd(self.cached)):
            proof = needed.check(site)
            if not proof.holds:
                forbids_both = self.instead.check(site).because == proof.because
                return Proof(False, "") if forbids_both else Proof(True, f"no cache can serve: {proof.because}")
        return Proof(False, "")
