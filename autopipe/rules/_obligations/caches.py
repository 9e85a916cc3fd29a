"""What must be proved about caches that are there, or could be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage
from autopipe.rules._base import MeasurementError, Proof, Site
from autopipe.rules._obligations.epochs import SameEveryEpoch
from autopipe.rules._obligations.errors import NoErrorIsIgnored
from autopipe.rules._obligations.numbers import SameNumbers
from autopipe.rules._obligations.reading import ReadToItsEnd

__all__ = ["DiskNamed", "InMemory", "NoCacheServes", "NotCachedYet", "OneReader", "SoonShuffled"]

# So much later may an epoch begin, of the least it took. A shuffle takes a fifth of what is measured: nothing is handed
# to Python.
_MOST_WAITING = 0.1
_MAY_KEEP = (ir.Keeping, ir.Opaque)


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
        cached = any(self.stage in trees.walk(cache) for cache in trees.keeping(site.pipeline))
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


@dataclass(frozen=True)
class SoonShuffled:
    """To read all elements from a cache, before an epoch begins, takes little beside what making them took.

    Or it takes no longer than making those that its author's shuffle asks for before it gives the first.
    """

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Compare with making them, which no epoch was quicker than, whatever it trained."""
        try:
            making, reading = site.measurements.caching(self.pipeline)
        except MeasurementError as unknown:
            return Proof(False, f"it is not known how long a shuffle of all elements takes to fill: {unknown}")
        share = reading / making
        because = f"before an epoch, all are read into a shuffle, in {share:.1%} of the time it takes to make them"
        if share <= _MOST_WAITING:
            return Proof(True, because, timed=True)
        soon = share * _stages_at_once(site.node) <= self._share_made_first(site)
        return Proof(soon, f"{because}{', and filling the written one took as long' if soon else ''}", timed=True)

    def _share_made_first(self, site: Site) -> float:
        """Return what share of the elements the author's shuffle asks for before it gives one, at the least.

        What a cache of the author's gives was not made in every epoch, and what is not read may hold one.
        """
        written = site.node
        if not isinstance(written, ir.Shuffle) or any(isinstance(each, _MAY_KEEP) for each in trees.walk(written)):
            return 0.0
        if math.isinf(written.capacity):
            return 1.0
        try:
            return min(1.0, written.buffer_size / max(site.measurements.most_elements(self.pipeline), 1))
        except MeasurementError:
            return 0.0


def _stages_at_once(pipeline: ir.Node) -> int:
    """Return how many parts of a pipeline may work at the same time, at the most.

    They are timed without the buffers between them, one after the other.
    """
    return 1 + sum(map(trees.works_ahead, trees.walk(pipeline)))
