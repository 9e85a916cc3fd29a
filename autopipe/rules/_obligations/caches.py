"""What must be proved about existing or possible caches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autopipe.figures import duration_text
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import only_cache
from autopipe.pipeline.order import mixes_all
from autopipe.pipeline.text import stage
from autopipe.rules._base import MeasurementError, Proof, Site, refuses_unmeasured
from autopipe.rules._obligations.epochs import SameEveryEpoch
from autopipe.rules._obligations.errors import NoErrorIsIgnored
from autopipe.rules._obligations.numbers import SameNumbers
from autopipe.rules._obligations.reading import ReadToItsEnd

__all__ = [
    "DiskNamed",
    "InMemory",
    "NoCacheServes",
    "NotCachedYet",
    "OneReader",
    "OthersStartSoon",
    "SoonShuffled",
    "StartsSoon",
]

# An epoch may begin later by this share of its shortest time. A shuffle takes a fifth of the time measured, since
# nothing is handed to Python.
_MOST_WAITING = 0.1
_MAY_KEEP = ir.Keeping | ir.Opaque
_MOST_SECONDS_TO_FIRST_ELEMENT = 5.0


@dataclass(frozen=True)
class InMemory:
    """The cache holds elements in memory."""

    cache: ir.Cache

    def check(self, site: Site) -> Proof:
        """Refuse files: one that exists holds the elements of the old place."""
        if self.cache.in_memory:
            return Proof(True, "the cache is in memory and starts empty")
        return Proof(False, f"the cache file {self.cache.filename!r} may already hold elements of the old place")


@dataclass(frozen=True)
class NotCachedYet:
    """No cache downstream keeps the results already."""

    stage: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for a cache downstream; if there is one, there is nothing to report."""
        cached = any(self.stage in trees.walk(cache) for cache in trees.keeping(site.pipeline))
        return Proof(False, "") if cached else Proof(True, "no cache keeps its results yet")


@dataclass(frozen=True)
class DiskNamed:
    """The user named a folder for caches."""

    def check(self, site: Site) -> Proof:
        """Ask; if there is no folder, there is nothing to report."""
        return Proof(site.measurements.disk_free is not None, "")


@dataclass(frozen=True)
class OneReader:
    """A stage is read in only one place of the pipeline."""

    node: ir.Node = field(repr=False)
    why: str = "a file cache can be read once"

    def check(self, site: Site) -> Proof:
        """Count: two readers would write one file, or no longer read the same from memory."""
        alone = sum(node == self.node for node in trees.walk(site.pipeline)) == 1
        return Proof(alone, "" if alone else f"{stage(self.node)} is read twice, and {self.why}")


@dataclass(frozen=True)
class StartsSoon:
    """The first element of all does not wait long for the work on others that a shuffle after the cache needs first.

    A shuffle that mixes all elements anew stands before the work while the cache fills, so that nothing waits. It
    cannot if its author gave it a seed, if it holds only some of the elements, if one iterator goes on for more epochs,
    if the cache is read at several places, or if several caches fill; see also :class:`OthersStartSoon`.

    Args:
        cached: what the cache would keep.
        result: what becomes of the site, with the shuffles after the cache.
    """

    measures: ClassVar[bool] = True
    cached: ir.Map = field(repr=False)
    result: ir.Node = field(repr=False)

    @refuses_unmeasured("it is not known how long the first element would wait")
    def check(self, site: Site) -> Proof:
        """Multiply what the shuffle holds by the time it takes to make one."""
        if site.measurements.follows_plan:
            return Proof(True, "")
        shuffles, others = self._shuffles(), _begin_to_wait(site, self.result)
        if not (shuffles or others):
            return Proof(True, "")
        waiting = self._waiting(shuffles, site)
        if not (waiting or others):
            told = self._if_repeated(shuffles, site)
            return Proof(True, told, timed=bool(told))
        own = [(max(waiting, key=_holds_at_first), self.cached)] if waiting else []
        return _waits_briefly([*own, *others], site)

    def _if_repeated(self, shuffles: list[ir.Shuffle], site: Site) -> str:
        """Return what a repeat that is put after the whole pipeline changes, unless that is little, or unknown."""
        try:
            most = max(shuffles, key=lambda each: each.capacity)
            seconds, waits = _wait(most, self.cached, most.capacity, site)
        except MeasurementError:
            return ""
        if seconds <= _MOST_SECONDS_TO_FIRST_ELEMENT:
            return ""
        return f"the first element does not wait, but under a repeat() after optimize() it {waits}"

    def waited_too_long(self, site: Site) -> bool:
        """Return whether a plan that is applied again may have kept results by number because of a wait."""
        if not site.measurements.follows_plan:
            return False
        return bool(self._waiting(self._shuffles(), site) or _begin_to_wait(site, self.result))

    def _shuffles(self) -> list[ir.Shuffle]:
        """Return the shuffles that the cache went before."""
        return [node for node in self._after(self.result) if isinstance(node, ir.Shuffle) and node.mixes]

    def _waiting(self, shuffles: list[ir.Shuffle], site: Site) -> list[ir.Shuffle]:
        """Return those of the shuffles after the cache that need its elements before they give the first."""
        tree = trees.substitute(site.pipeline, site.node, self.result)
        goes_on = any(isinstance(node, ir.Repeat) and node.goes_on for node in self._after(tree))
        if goes_on or only_cache(tree) is None:
            return shuffles
        return [each for each in shuffles if not _stands_before(each)]

    def _after(self, tree: ir.Node) -> list[ir.Node]:
        found: list[ir.Node] = []
        ids: set[int] = set()
        for node in trees.inputs_first(tree):
            if any(id(each) in ids or each == self.cached for each in node.inputs):
                ids.add(id(node))
                found.append(node)
        return found


@dataclass(frozen=True)
class OthersStartSoon:
    """With one more cache, the first element does not wait long for the work that an earlier cache keeps.

    A shuffle stands before that work while the cache fills, but only while no other cache does.

    Args:
        result: what becomes of the site, with the new cache.
    """

    measures: ClassVar[bool] = True
    result: ir.Node = field(repr=False)

    @refuses_unmeasured("it is not known how long the first element would wait")
    def check(self, site: Site) -> Proof:
        """Multiply what the other shuffles hold by the time it takes to make one."""
        others = _begin_to_wait(site, self.result)
        if not others or site.measurements.follows_plan:
            return Proof(True, "")
        return _waits_briefly(others, site)


def _begin_to_wait(site: Site, result: ir.Node) -> list[tuple[ir.Shuffle, ir.Node]]:
    """Return the shuffles that stood before the work of the only cache so far, and what that one keeps."""
    cache = only_cache(site.pipeline)
    after = trees.substitute(site.pipeline, site.node, result)
    if cache is None or only_cache(after) is not None:
        return []
    shuffles = (each for each in trees.walk(after) if isinstance(each, ir.Shuffle) and _stands_before(each))
    return [(each, cache.input) for each in shuffles if trees.past(each.input, ir.PassingOn) == cache]


def _waits_briefly(waiting: Sequence[tuple[ir.Shuffle, ir.Node]], site: Site) -> Proof:
    """Prove that no shuffle waits long for what the cache before it keeps."""
    seconds, waits = max(_wait(shuffle, cached, _holds_at_first(shuffle), site) for shuffle, cached in waiting)
    if seconds <= _MOST_SECONDS_TO_FIRST_ELEMENT:
        return Proof(True, f"the first element of the first epoch {waits}", timed=True)
    law = f"a first element may wait no longer than {_MOST_SECONDS_TO_FIRST_ELEMENT:g} s"
    return Proof(False, f"{law}, but this one {waits}", timed=True)


def _stands_before(shuffle: ir.Shuffle) -> bool:
    return shuffle.from_before_the_work and mixes_all(shuffle)


def _wait(shuffle: ir.Shuffle, cached: ir.Node, size: float, site: Site) -> tuple[float, str]:
    """Return the seconds of work on what fills a shuffle of this size, and this in words."""
    held, making = site.measurements.filling(cached, size)
    seconds = making / _calls_at_once(cached, site)
    of_others = f"the work on the {held:,} elements that {stage(shuffle)} holds"
    return seconds, f"waits at least {duration_text(seconds)} for {of_others}"


def _calls_at_once(cached: ir.Node, site: Site) -> float:
    calls = getattr(cached, "num_parallel_calls", None)
    return min(calls, site.measurements.cores) if calls is not None and calls > 0 else site.measurements.cores


def _holds_at_first(shuffle: ir.Shuffle) -> float:
    """Return how many elements a shuffle may hold while the cache before it fills."""
    return shuffle.capacity if shuffle.while_filling is None else shuffle.while_filling


@dataclass(frozen=True)
class NoCacheServes:
    """No cache can keep the results of the same work: its conditions do not hold here.

    Args:
        soon: what the cache would keep, and what its first element would wait for.
        instead: what keeping results by number needs.
    """

    soon: StartsSoon = field(repr=False)
    instead: SameNumbers

    def check(self, site: Site) -> Proof:
        """Check what a cache needs; if it holds, or if neither is possible, there is nothing to report."""
        cached = self.soon.cached
        for needed in (SameEveryEpoch(cached), NoErrorIsIgnored(), ReadToItsEnd(cached), self.soon):
            proof = needed.check(site)
            if not proof.holds:
                forbids_both = self.instead.check(site).because == proof.because
                return Proof(False, "") if forbids_both else Proof(True, f"no cache can serve: {proof.because}")
        return Proof(self.soon.waited_too_long(site), "", timed=True)


@dataclass(frozen=True)
class SoonShuffled:
    """Reading all elements from a cache before an epoch begins takes far less time than making them did.

    Or it takes no longer than making the elements that the author's shuffle needs before it gives the first.
    """

    pipeline: ir.Node = field(repr=False)

    @refuses_unmeasured("it is not known how long a shuffle of all elements takes to fill")
    def check(self, site: Site) -> Proof:
        """Compare with making them: no epoch was shorter than that, whatever it trained."""
        making, reading = site.measurements.caching(self.pipeline)
        share = reading / making
        because = f"before an epoch, all are read into a shuffle, in {share:.1%} of the time needed to make them"
        if share <= _MOST_WAITING:
            return Proof(True, because, timed=True)
        soon = share * _stages_at_once(site.node) <= self._share_made_first(site)
        return Proof(soon, f"{because}{', and filling the written one took as long' if soon else ''}", timed=True)

    def _share_made_first(self, site: Site) -> float:
        """Return the least share of the elements that the author's shuffle needs before it gives one.

        It is 0 if there may be a cache of the author's, whose elements were not made in every epoch.
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
    """Return how many parts of a pipeline may work at the same time at most.

    They are timed without the buffers between them, one after the other.
    """
    return 1 + sum(map(trees.works_ahead, trees.walk(pipeline)))
