"""What must be proved to keep results by the numbers of elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.order_inside import op_that_an_option_frees, op_that_ignores
from autopipe.functions.function import Function
from autopipe.functions.joined.numbered import opens_one_file
from autopipe.pipeline import ir, trees
from autopipe.pipeline.repeatable import reads_files
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules._base import Proof, Site
from autopipe.rules._obligations.epochs import keeps_order, what_differs_between_epochs, who_fails_now_and_then
from autopipe.rules._obligations.functions import Deterministic

__all__ = ["NotSameTogether", "SameNumbers"]

# Stages in which each element takes one number, whether it fails or not.
_ONE_NUMBER_EACH = ir.Concatenate | ir.Enumerate | ir.Mapping | ir.Options | ir.Prefetch | ir.Zip


@dataclass(frozen=True)
class SameNumbers:
    """The number of an element, and the result of the function for it, are the same whenever the pipeline runs.

    Args:
        fn: the function.
        elements: the elements with their numbers, in any order.
    """

    fn: Function
    elements: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look at the numbered elements, and at the stage that opens files if their elements are numbered."""
        found = list(_up_to_numbers(self.elements))
        opening = (node.fn for node in found if isinstance(node, ir.FlatMap | ir.Interleave))
        proofs = [Deterministic(fn).check(site) for fn in (self.fn, *opening)]
        for node in (each for each in found if isinstance(each, ir.Enumerate)):
            proofs += [_same_order(node.input, site), _no_number_shifts(node.input)]
        unsteady = next((proof for proof in proofs if not proof.holds), None)
        read = effects(self.fn).file_reads or reads_files(self.elements)
        assumed = "; assumes the files stay as they are" if read else ""
        return unsteady or Proof(True, f"each element has the same number in every epoch{assumed}")


@dataclass(frozen=True)
class NotSameTogether:
    """Elements of several sides together have no numbers that are the same in every epoch, or have no end.

    Args:
        together: what keeping their results by number needs.
        source: all elements that would be numbered.
    """

    together: SameNumbers
    source: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Ask; if they have, more is kept for them together than for each side, and there is nothing to report."""
        return Proof(signature(self.source).is_infinite or not self.together.check(site).holds, "")


def _up_to_numbers(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the stages from the end to where elements were numbered."""
    yield node
    if isinstance(node, ir.Enumerate):
        return
    for each in node.parts if isinstance(node, ir.ChooseFrom) else node.inputs:
        yield from _up_to_numbers(each)


def _no_number_shifts(source: ir.Node) -> Proof:
    """Return whether an element that fails in some epochs only still takes exactly one number in all of them.

    It does not if a batch fails, or an element from which several are read: numbers of later elements then shift.
    """
    for node in trees.walk(source):
        reason = who_fails_now_and_then(node) if _may_shift(node) else None
        if reason is not None:
            return Proof(False, f"{reason} in one epoch only would shift numbers, in {stage(node)}")
    return Proof(True, "")


def _may_shift(node: ir.Node) -> bool:
    """Return whether a failing input element may change the number of elements after a stage."""
    if isinstance(node, ir.FilesReader | ir.Flattening):
        # What is missing from the last file shifts nothing.
        one_each = isinstance(node, ir.FilesReader) or (opens_one_file(node.fn) and not op_that_ignores(node.fn))
        return signature(node.input).cardinality not in (0, 1) or not one_each
    return isinstance(node, ir.Saved) or bool(node.inputs and not isinstance(node, _ONE_NUMBER_EACH))


def _same_order(source: ir.Node, site: Site) -> Proof:
    """Return whether a pipeline gives its elements in the same order each time, even if an option frees it.

    Results are kept from the first element on: an order that an author's cache fixes later does not count.
    """
    freed = trees.frees_order(site.pipeline)
    for node in trees.walk(source):
        if freed and not keeps_order(node):
            return Proof(False, f"options.deterministic=False may free the order of {stage(node)}")
        change = what_differs_between_epochs(node, site)
        if change:
            return Proof(False, change)
        inside = next((fn for fn in trees.called_by(node) if op_that_an_option_frees(fn)), None)
        if inside is not None or (isinstance(node, ir.FilesReader) and node.num_parallel_reads == ir.AUTOTUNE):
            return Proof(False, f"an option after it would free the order of {inside or stage(node)}")
    return Proof(True, "")
