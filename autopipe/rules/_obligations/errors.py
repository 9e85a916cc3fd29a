"""What must be proved about elements that fail."""

from __future__ import annotations

from dataclasses import dataclass

from autopipe.functions.failures import may_fail
from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees
from autopipe.rules._base import Keeps, Proof, Site

__all__ = ["ErrorsSurface", "NoErrorIsIgnored", "NoErrorIsLost"]


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
        return Proof(True, f"an error in {self.fn} still surfaces, for the same element")


@dataclass(frozen=True)
class NoErrorIsIgnored:
    """An error ends the epoch, so that nothing depends on which other elements it takes with it."""

    def check(self, site: Site) -> Proof:
        """Look for ``ignore_errors`` between here and the consumer."""
        if _errors_are_ignored(site):
            return Proof(False, "an error would take other elements with it, and ignore_errors() leaves them out")
        return Proof(True, "an error still ends the epoch")


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


def _errors_are_ignored(site: Site) -> bool:
    return any(
        isinstance(node, ir.IgnoreErrors) and site.node in trees.walk(node) for node in trees.walk(site.pipeline)
    )
