"""What must be proved about elements that fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autopipe.functions.analysis.failures import may_fail
from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees
from autopipe.pipeline.failing import who_may_fail
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules._base import Keeps, Proof, Site
from autopipe.rules._obligations.reading import who_stops_early

__all__ = [
    "AllAreTaken",
    "ErrorsEndEpoch",
    "ErrorsSurface",
    "NoErrorIsIgnored",
    "NoErrorIsLeftOver",
    "NoErrorIsLost",
    "ZipErrorsEndEpoch",
    "leaves_some_over",
]


@dataclass(frozen=True)
class ErrorsSurface:
    """An error in a function ends the epoch, so that nothing depends on which other elements it takes with it."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer."""
        culprit = may_fail(self.fn)
        if culprit is None:
            return Proof(True, f"{self.fn} cannot fail")
        if _errors_are_ignored(site):
            return Proof(False, f"{self.fn} may fail ({culprit}), and ignore_errors() would leave out other elements")
        left = _leaving_some_out(site) if _is_mixed(site) else None
        if left:
            return Proof(False, f"{self.fn} may fail ({culprit}) {left}")
        return Proof(True, f"an error in {self.fn} still surfaces, for the same element")


@dataclass(frozen=True)
class ErrorsEndEpoch:
    """An error ends the epoch, so that nothing depends on which other elements it takes with it."""

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer."""
        if _errors_are_ignored(site):
            return Proof(False, "an error would take other elements with it, and ignore_errors() leaves them out")
        return Proof(True, "an error still ends the epoch")


@dataclass(frozen=True)
class ZipErrorsEndEpoch:
    """An error ends the epoch where it came from one of several sides, and comes from all of them now."""

    def check(self, site: Site) -> Proof:
        """Look between here and the consumer for what leaves out elements that fail, and for a reader of a zip's end.

        Of a batch that fails, a zip says also that it was the last, which a ``parallel_interleave`` hears alone.
        """
        hearing = (node for node in trees.walk(site.pipeline) if isinstance(node, ir.LegacyInterleave))
        found = next((node for node in hearing if site.node in trees.walk(node)), None)
        if found is not None:
            return Proof(False, f"{stage(found)} takes an error of a zip for its end, and no other error")
        return ErrorsEndEpoch().check(site)


@dataclass(frozen=True)
class NoErrorIsIgnored:
    """An error ends the epoch, and no element fails that nobody would have asked for."""

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer, and after a shuffle for what stops early too."""
        left = _leaving_some_out(site) if _is_mixed(site) else None
        culprit = who_may_fail(site.node) if left else None
        return Proof(False, f"{culprit} {left}") if culprit else ErrorsEndEpoch().check(site)


@dataclass(frozen=True)
class AllAreTaken:
    """Nothing leaves out elements, as ``take`` does: one that nobody asked for would fail."""

    lets_differ: ClassVar[str] = "an error may come sooner"

    def check(self, site: Site) -> Proof:
        """Look for a stage between here and the consumer that stops early."""
        left = _leaving_some_out(site)
        return Proof(not left, f"an element may fail {left}" if left else "an error comes sooner, and comes anyway")


@dataclass(frozen=True)
class NoErrorIsLost:
    """Every element whose function fails still fails, though its result would be dropped, or part of it."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Under ``keeps="sequence"``, and under ``ignore_errors``, allow only functions that cannot fail."""
        surfaces = ErrorsSurface(self.fn).check(site)
        culprit = may_fail(self.fn)
        if culprit is None or not surfaces.holds:
            return surfaces
        if site.demanded is Keeps.SEQUENCE:
            return Proof(False, f"{self.fn} may fail ({culprit}), and what is no longer computed cannot")
        return Proof(True, f"{self.fn} computes less, and what is left out can no longer fail", Keeps.ELEMENTS)


@dataclass(frozen=True)
class NoErrorIsLeftOver:
    """Every element whose function fails still fails, though it would be one that whole batches leave over.

    Args:
        fn: what is called for batches then.
        batch: how they are made.
    """

    fn: Function
    batch: ir.Batch = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Count what is left over; where that may be something, do as :class:`NoErrorIsLost`."""
        return (NoErrorIsLost if leaves_some_over(self.batch) else ErrorsSurface)(self.fn).check(site)


def leaves_some_over(batch: ir.Batch) -> bool:
    """Return whether there may be elements at the end that make no whole batch, and come to nobody."""
    elements = signature(batch.input)
    if not batch.drop_remainder or elements.is_endless:
        return False
    return not elements.is_counted or elements.cardinality % batch.batch_size > 0


def _is_mixed(site: Site) -> bool:
    """Return whether what is made before an element is asked for may be another than the one that is given."""
    return any(isinstance(node, ir.Shuffle) for node in trees.walk(site.node))


def _leaving_some_out(site: Site) -> str | None:
    """Return words for the elements that a stage downstream never asks for; ``None`` if it asks for all."""
    if isinstance(site.node, ir.TakeWhile) or (isinstance(site.node, ir.Take) and site.node.count >= 0):
        return f"on an element that {stage(site.node)} leaves out"
    early = who_stops_early(site)
    return f"on an element that {stage(early)} downstream leaves out" if early else None


def _errors_are_ignored(site: Site) -> bool:
    return any(
        isinstance(node, ir.IgnoreErrors) and site.node in trees.walk(node) for node in trees.walk(site.pipeline)
    )
