"""What must be measured on the user's own elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autopipe.figures import bytes_text
from autopipe.functions.batched.vectorize import why_not_vectorizable
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.rules._base import MeasurementError, Proof, Site, refuses_unmeasured

__all__ = [
    "WHOLE_EPOCH",
    "Faster",
    "FewAtOnce",
    "FewerBytes",
    "FitsDisk",
    "FitsMemory",
    "LightResults",
    "LittleMoreAtOnce",
    "NotMuchLarger",
    "NotSlower",
    "OutgrowsMemory",
    "SameOnSample",
    "Waits",
    "WorthCaching",
    "WorthCachingOnDisk",
]

# Stands for the elements of an unbounded buffer; the number does not matter if only sizes of elements are compared.
WHOLE_EPOCH = 10**12

_MEBIBYTE = 2**20
# The share of the free disk that caches may take; the rest is left to other users.
_SHARE_OF_DISK = 0.8
_LEAST_GAIN = 1.05
# Elements larger than this come from memory; a sample, smaller than the data, may still fit a core's cache.
_CACHE_OF_CORE = 4 * _MEBIBYTE
_LEAST_GAIN_OF_LARGE = 1.3
# A smaller saving per element is the cost of a call, which a batch pays once: no reason to hold elements in memory.
# Without a batched form, each element pays for its call.
_CALL_SECONDS = 20e-6
_LEAST_OF_EACH = 5e-6
_LEAST_CACHING_GAIN = 2.0
_LITTLE_MEMORY = 16 * _MEBIBYTE
# Of ten functions tried with results of 300 to 432 KiB, eight were slower by the batch; with 192 KiB most were faster.
_HEAVY_RESULT = 256 * 1024
# The share of the RAM budget for elements that are made at once.
_SHARE_AT_ONCE = 0.25
_WAITING_SHARE = 0.5
# A call of a function that does nothing takes about a tenth of this.
_LEAST_WAIT_SECONDS = 200e-6


@dataclass(frozen=True)
class Faster:
    """The rewritten pipeline is faster on the user's own elements.

    Args:
        before: a part of the pipeline.
        after: what replaces it.
        over: the stage that both read from, which is sampled; ``None`` if they are endless and already differ in their
            sources.
    """

    measures: ClassVar[bool] = True
    before: ir.Node = field(repr=False)
    after: ir.Node = field(repr=False)
    over: ir.Node | None = field(repr=False)

    @refuses_unmeasured("it could not be timed")
    def check(self, site: Site) -> Proof:
        """Time both, interleaved."""
        median, low, high = site.measurements.speed(self.before, self.after, self.over)
        figures = f"measured {median:.2f}x ({low:.2f}-{high:.2f}) the speed on your elements"
        if _LEAST_GAIN <= median < _LEAST_GAIN_OF_LARGE and self._is_large(site):
            less = "each outgrows the cache of a core, so the gain may be smaller on all of them"
            return Proof(False, f"{figures}; {less}", timed=True)
        if median >= _LEAST_GAIN and low > 1:
            return Proof(True, figures, timed=True)
        least = f"at least {_LEAST_GAIN:g}x is needed, and a lower end above 1x"
        return Proof(False, f"{figures}; {least}", timed=True)

    def _is_large(self, site: Site) -> bool:
        try:
            return site.measurements.element_bytes(self.after) > _CACHE_OF_CORE
        except MeasurementError:
            return False


@dataclass(frozen=True)
class NotSlower(Faster):
    """The rewritten stage is not slower on the user's own elements; its gain shows only together with other stages."""

    @refuses_unmeasured("it could not be timed")
    def check(self, site: Site) -> Proof:
        """Time both, interleaved; a stage alone can also use all cores within an op."""
        median, low, high = site.measurements.speed(self.before, self.after, self.over)
        figures = f"alone it measured {median:.2f}x ({low:.2f}-{high:.2f}) the speed on your elements"
        return Proof(high >= 1, figures, timed=True)


@dataclass(frozen=True)
class LightResults:
    """The results of a map are so small that the cost of a call matters compared to its work."""

    measures: ClassVar[bool] = True
    mapped: ir.Map = field(repr=False)

    @property
    def fails_by_type(self) -> bool:
        """Whether the type of the results already refutes it, so that no batched form need be made."""
        return (signature(self.mapped).element_bytes or 0) >= _HEAVY_RESULT

    @refuses_unmeasured("the size of its results is not known")
    def check(self, site: Site) -> Proof:
        """Look at their type, or else run the map on a sample."""
        size = site.measurements.element_bytes(self.mapped)
        if size >= _HEAVY_RESULT:
            return Proof(False, f"with results of {size / 1024:,.0f} KiB, calls cost little beside their work")
        return Proof(True, "")


@dataclass(frozen=True)
class FitsMemory:
    """All elements of a pipeline fit into the RAM budget, together with other caches."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)
    others: tuple[ir.Node, ...] = field(default=(), repr=False)

    @refuses_unmeasured("its size is not known")
    def check(self, site: Site) -> Proof:
        """Run the pipelines on a sample and multiply; caches in other branches count too."""
        fits, needed, budget = _against_budget(self.pipeline, site, self.others)
        return Proof(fits, f"it needs {needed} of {budget}" if fits else f"it would need {needed}, above {budget}")


@dataclass(frozen=True)
class OutgrowsMemory:
    """The elements of a pipeline do not all fit into the RAM budget."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Run the pipeline on a sample and multiply; if there is room for it, there is nothing to report."""
        try:
            fits, needed, budget = _against_budget(self.pipeline, site)
        except MeasurementError:
            return Proof(False, "")
        return Proof(False, "") if fits else Proof(True, f"as written it needs {needed}, above {budget}")


def _against_budget(pipeline: ir.Node, site: Site, others: Sequence[ir.Node] = ()) -> tuple[bool, str, str]:
    """Return whether a cache of a pipeline fits beside those of others, with its size and the budget in words."""
    own = site.measurements.cache_bytes(pipeline)
    elsewhere = _held_elsewhere(site) + sum(map(site.measurements.cache_bytes, others))
    needed = own + elsewhere
    element = f"{site.measurements.element_bytes(pipeline):,.0f} bytes for each element"
    budget = f"the RAM budget of {bytes_text(site.measurements.ram_budget)}"
    beside = site.measurements.bytes_beside_caches(trees.last_stage(site.pipeline.inputs[0]))
    if beside >= _MEBIBYTE:
        budget += f", of which buffers and measuring take {bytes_text(beside)}"
    fits = needed + beside <= site.measurements.ram_budget
    together = f", {bytes_text(needed)} with the other caches" if elsewhere else ""
    return fits, f"{bytes_text(own)} ({element}{together})", budget


def _held_elsewhere(site: Site) -> int:
    """Return the bytes of the caches that are neither upstream nor downstream of the site."""
    below = set(trees.walk(site.node))
    caches = (node for node in trees.keeping(site.pipeline) if node.in_memory)
    beside = (node for node in caches if node not in below and site.node not in trees.walk(node))
    return sum(site.measurements.cache_bytes(node.kept) for node in beside)


@dataclass(frozen=True)
class SameOnSample:
    """Both pipelines give the same elements on a sample of the user's own."""

    measures: ClassVar[bool] = True
    before: ir.Node = field(repr=False)
    after: ir.Node = field(repr=False)
    over: ir.Node = field(repr=False)
    exact: bool

    @refuses_unmeasured("the two could not be compared")
    def check(self, site: Site) -> Proof:
        """Run both and compare."""
        difference = site.measurements.same(self.before, self.after, self.over, self.exact)
        if difference:
            return Proof(False, f"on your elements the results differ: {difference}")
        return Proof(True, f"equal on a sample of your elements{'' if self.exact else ' up to float rounding'}")


@dataclass(frozen=True)
class NotMuchLarger:
    """The elements that are held take little more memory than those held before, or less."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)
    than: ir.Node = field(repr=False)
    count: int

    @refuses_unmeasured("the size of its elements is not known")
    def check(self, site: Site) -> Proof:
        """Run both on a sample."""
        ours, theirs = map(site.measurements.element_bytes, (self.pipeline, self.than))
        number = "all" if self.count == WHOLE_EPOCH else f"{self.count:,}"
        held = f"{ours:,.0f} bytes each instead of {theirs:,.0f}"
        if (ours - theirs) * self.count <= _LITTLE_MEMORY:
            return Proof(True, f"{number} elements are held, at {held}")
        return Proof(False, f"{number} elements would be held, at {held}")


@dataclass(frozen=True)
class FewAtOnce:
    """The elements that are made at once take little memory, or little of the RAM budget."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)
    count: int

    @refuses_unmeasured("the size of its elements is not known")
    def check(self, site: Site) -> Proof:
        """Run the pipeline on a sample."""
        needed = self.count * site.measurements.element_bytes(self.pipeline)
        allowed = _allowed_at_once(site)
        because = f"{self.count} elements at once take {bytes_text(needed)}"
        return Proof(needed <= allowed, f"{because}; {bytes_text(allowed)} is allowed")


def _allowed_at_once(site: Site) -> float:
    return max(_LITTLE_MEMORY, _SHARE_AT_ONCE * site.measurements.ram_budget)


@dataclass(frozen=True)
class LittleMoreAtOnce:
    """The elements that are made at once take little more memory than before, or little more of the RAM budget.

    If their types tell their size, nothing is run, so this needs no time to measure.
    """

    pipeline: ir.Node = field(repr=False)
    than: ir.Node = field(repr=False)
    count: int

    @refuses_unmeasured("the size of its elements is not known")
    def check(self, site: Site) -> Proof:
        """Look at their types, or else run both on a sample."""
        ours, theirs = map(site.measurements.element_bytes, (self.pipeline, self.than))
        more, allowed = max((ours - theirs) * self.count, 0), _allowed_at_once(site)
        because = f"{self.count} elements at once take {bytes_text(more)} more; {bytes_text(allowed)} is allowed"
        return Proof(more <= allowed, because)


@dataclass(frozen=True)
class FewerBytes:
    """The elements at the cut take clearly less memory than those before and after the function."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)
    than: tuple[ir.Node, ...] = field(repr=False)
    count: int

    @refuses_unmeasured("the size of its elements is not known")
    def check(self, site: Site) -> Proof:
        """Run all on a sample; a small saving is not worth another stage."""
        ours, *theirs = map(site.measurements.element_bytes, (self.pipeline, *self.than))
        fewer = (min(theirs) - ours) * self.count > _LITTLE_MEMORY
        others = " or ".join(f"{each:,.0f}" for each in theirs)
        sizes = f"{ours:,.0f} bytes each at the cut instead of {others}"
        return Proof(fewer, f"{self.count:,} elements are held, at {sizes}")


@dataclass(frozen=True)
class Waits:
    """A call of a map spends most of its time waiting, during which it needs no core."""

    measures: ClassVar[bool] = True
    mapped: ir.Map

    @refuses_unmeasured("it is not known whether it waits")
    def check(self, site: Site) -> Proof:
        """Call it for one element after the other; if it works most of the time, there is nothing to report."""
        taken, worked = site.measurements.working(self.mapped)
        waits = taken - worked >= max(_LEAST_WAIT_SECONDS, _WAITING_SHARE * taken)
        figures = f"{taken * 1e3:.2f} ms, and needs a core for {worked * 1e3:.2f} ms of that"
        because = f"a call of {self.mapped.fn} takes {figures}"
        return Proof(waits, because if waits else "", timed=True)


@dataclass(frozen=True)
class WorthCaching:
    """Making an element costs much more than reading it from memory."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)
    least_saved_seconds: float | None = None

    @refuses_unmeasured("it is not known what it would save")
    def check(self, site: Site) -> Proof:
        """Time both on a sample; a cache of cheap elements only takes memory."""
        return _worth(self.pipeline, site, self.least_saved_seconds, on_disk=False)


@dataclass(frozen=True)
class WorthCachingOnDisk:
    """Making an element costs much more than reading it from the disk."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)

    @refuses_unmeasured("it is not known what it would save")
    def check(self, site: Site) -> Proof:
        """Time both on a sample, read from the disk itself and not from the kernel's copy of it."""
        return _worth(self.pipeline, site, None, on_disk=True)


def _worth(pipeline: ir.Node, site: Site, least_saved: float | None, *, on_disk: bool) -> Proof:
    making, reading = site.measurements.caching(pipeline, on_disk=on_disk)
    where = "disk" if on_disk else "memory"
    figures = f"{making * 1e6:,.0f} us to make an element, {reading * 1e6:,.0f} us to read it from {where}"
    saved = making - reading
    enough = _is_more_than_a_call(saved, pipeline) if least_saved is None else saved >= least_saved
    worth = enough and making >= _LEAST_CACHING_GAIN * reading
    if worth:
        return Proof(True, f"it takes {figures}; from the second epoch on", timed=True)
    least = _CALL_SECONDS if least_saved is None else least_saved
    law = f"a cache must save at least half of the time, and {least * 1e6:,.0f} us an element"
    return Proof(False, f"it takes {figures}: {law}", timed=True)


def _is_more_than_a_call(saved: float, pipeline: ir.Node) -> bool:
    if saved >= _CALL_SECONDS:
        return True
    return saved >= _LEAST_OF_EACH and any(map(_is_called_for_each, trees.walk(pipeline)))


def _is_called_for_each(node: ir.Node) -> bool:
    """Return whether a map works on single elements and has no batched form."""
    if not isinstance(node, ir.Map) or any(isinstance(each, ir.Batching) for each in trees.walk(node)):
        return False
    return why_not_vectorizable(node.fn, None) is not None


@dataclass(frozen=True)
class FitsDisk:
    """All elements of a pipeline fit on the disk that the user named, and changes of them can be detected."""

    measures: ClassVar[bool] = True
    pipeline: ir.Node = field(repr=False)

    @refuses_unmeasured("it cannot be kept on disk")
    def check(self, site: Site) -> Proof:
        """Run the pipeline on a sample and multiply; look at everything that decides its elements."""
        needed = site.measurements.cache_bytes(self.pipeline)
        site.measurements.keep_on_disk(self.pipeline)
        free = _SHARE_OF_DISK * (site.measurements.disk_free or 0)
        figures = f"{bytes_text(needed)}; {bytes_text(free)} of the disk may be used"
        return Proof(needed <= free, f"it needs {figures}")
