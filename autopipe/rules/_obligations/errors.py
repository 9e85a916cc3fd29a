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
    """An error in a function ends the epoch, so it does not matter which other elements are lost with it."""

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
    """An error ends the epoch, so it does not matter which other elements are lost with it."""

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer."""
        if _errors_are_ignored(site):
            return Proof(False, "an error would take other elements with it, and ignore_errors() would drop them too")
        return Proof(True, "an error still ends the epoch")


@dataclass(frozen=True)
class ZipErrorsEndEpoch:
    """An error of one of several sides ends the epoch, even though it now comes from all of them."""

    def check(self, site: Site) -> Proof:
        """Look between here and the consumer for ``ignore_errors``, and for a ``parallel_interleave``.

        With the error of a batch, a zip also reports its end, and a ``parallel_interleave`` sees only the end.
        """
        hearing = (node for node in trees.walk(site.pipeline) if isinstance(node, ir.LegacyInterleave))
        found = next((node for node in hearing if site.node in trees.walk(node)), None)
        if found is not None:
            return Proof(False, f"{stage(found)} takes an error of a zip, and no other error, for the end")
        return ErrorsEndEpoch().check(site)


@dataclass(frozen=True)
class NoErrorIsIgnored:
    """An error ends the epoch, and no element fails that would never have been asked for."""

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer, and after a shuffle for what stops early too."""
        left = _leaving_some_out(site) if _is_mixed(site) else None
        culprit = who_may_fail(site.node) if left else None
        return Proof(False, f"{culprit} {left}") if culprit else ErrorsEndEpoch().check(site)


@dataclass(frozen=True)
class AllAreTaken:
    """No stage leaves out elements, as ``take`` does: an element that was never asked for might fail."""

    lets_differ: ClassVar[str] = "an error may come sooner"

    def check(self, site: Site) -> Proof:
        """Look for a stage between here and the consumer that stops early."""
        left = _leaving_some_out(site)
        return Proof(not left, f"an element may fail {left}" if left else "an error comes sooner, but comes anyway")


@dataclass(frozen=True)
class NoErrorIsLost:
    """Every element whose function fails still fails, even if its result, or part of it, is dropped."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Under ``keeps="sequence"``, and under ``ignore_errors``, allow only functions that cannot fail."""
        surfaces = ErrorsSurface(self.fn).check(site)
        culprit = may_fail(self.fn)
        if culprit is None or not surfaces.holds:
            return surfaces
        if site.demanded is Keeps.SEQUENCE:
            return Proof(False, f"{self.fn} may fail ({culprit}), and what is no longer computed cannot fail")
        return Proof(True, f"{self.fn} computes less, and what is left out can no longer fail", Keeps.ELEMENTS)


@dataclass(frozen=True)
class NoErrorIsLeftOver:
    """Every element whose function fails still fails, even if whole batches leave it over.

    Args:
        fn: the function that is then called for batches.
        batch: the stage that makes the batches.
    """

    fn: Function
    batch: ir.Batch = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Count the elements left over; if there may be any, do as :class:`NoErrorIsLost`."""
        return (NoErrorIsLost if leaves_some_over(self.batch) else ErrorsSurface)(self.fn).check(site)


def leaves_some_over(batch: ir.Batch) -> bool:
    """Return whether elements at the end may be dropped because they do not make a whole batch."""
    elements = signature(batch.input)
    if not batch.drop_remainder or elements.is_infinite:
        return False
    return not elements.is_counted or elements.cardinality % batch.batch_size > 0


def _is_mixed(site: Site) -> bool:
    """Return whether an element that is made ahead may not be the one that is given next."""
    return any(isinstance(node, ir.Shuffle) for node in trees.walk(site.node))


def _leaving_some_out(site: Site) -> str | None:
    """Return a phrase for elements that a stage downstream never asks for; ``None`` if all are asked for."""
    if isinstance(site.node, ir.TakeWhile) or (isinstance(site.node, ir.Take) and not site.node.takes_all):
        return f"on an element that {stage(site.node)} leaves out"
    early = who_stops_early(site)
    return f"on an element that {stage(early)} downstream leaves out" if early else None


def _errors_are_ignored(site: Site) -> bool:
    return any(
        isinstance(node, ir.IgnoreErrors) and site.node in trees.walk(node) for node in trees.walk(site.pipeline)
    )
