"""What must be proved about how epochs differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.order_inside import (
    op_of_free_order,
    op_that_counts,
    op_that_ignores,
    op_without_end,
)
from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees
from autopipe.pipeline.repeatable import reads_files
from autopipe.pipeline.seeds import is_reseeded
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules._base import Keeps, Proof, Site
from autopipe.rules._obligations.functions import Deterministic
from autopipe.rules._obligations.reading import who_stops_early

__all__ = [
    "NoRepeatAfter",
    "QuickOnesUnseen",
    "Reshuffles",
    "SameElementsEveryEpoch",
    "SameEveryEpoch",
    "SameOnAllSides",
    "keeps_order",
    "what_differs_between_epochs",
    "who_fails_now_and_then",
]

# Stages that give the same elements in every epoch when what they read from does.
_STEADY = (
    ir.Batching | ir.Cache | ir.Concatenate | ir.Enumerate | ir.Options | ir.Prefetch | ir.Range | ir.Rebatch
    | ir.Repeat | ir.Shard | ir.Skip | ir.Take | ir.TensorSlices | ir.Tensors | ir.ThreadPool | ir.Unbatch | ir.Window
    | ir.Zip
)  # fmt: skip
# Stages that TensorFlow runs one element after the other, whatever the options; readers unless they are parallel.
_IN_ORDER = (
    ir.Concatenate | ir.Enumerate | ir.FilesReader | ir.Options | ir.Prefetch | ir.Range | ir.Repeat | ir.Shard
    | ir.Shuffle | ir.Skip | ir.Take | ir.TensorSlices | ir.Tensors | ir.Zip
)  # fmt: skip
# Stages that treat each element, and all that is made of it, alike, whatever came before.
_WHATEVER_CAME_BEFORE = (
    ir.Concatenate | ir.FilesReader | ir.Filter | ir.Flattening | ir.Map | ir.Options | ir.Prefetch | ir.ThreadPool
    | ir.Unbatch
)  # fmt: skip
# Stages that read all of their input: a cache there is full after one epoch.
_READING_TO_THE_END = (
    ir.Batching | ir.Enumerate | ir.Filter | ir.Map | ir.Options | ir.Prefetch | ir.Rebatch | ir.ThreadPool
    | ir.Unbatch
)  # fmt: skip
# Stages that are steady if their functions are deterministic.
_STEADY_IF_THEIR_FUNCTIONS_ARE = (
    ir.Filter | ir.Flattening | ir.Generator | ir.GroupByWindow | ir.Mapping | ir.Scan | ir.TakeWhile
)


@dataclass(frozen=True)
class Reshuffles:
    """Every epoch has its own order."""

    lets_differ: ClassVar[str] = "elements may come in another order"
    shuffle: ir.Shuffle

    def check(self, site: Site) -> Proof:
        """Look at the flag: moved below ``repeat``, a fixed order would come again in every epoch."""
        if not self.shuffle.reshuffle_each_iteration:
            return Proof(False, "reshuffle_each_iteration=False would repeat one order in every epoch")
        return Proof(True, "every epoch is shuffled anew")


@dataclass(frozen=True)
class QuickOnesUnseen:
    """Elements that are made quickly are not taken more often than others.

    Args:
        freed: the stage that may pass on elements in the order they are ready.
        shuffle: what mixes its elements.
    """

    freed: ir.Map | ir.Interleave
    shuffle: ir.Shuffle

    def check(self, site: Site) -> Proof:
        """Look for endless datasets, whose elements are never all taken, and for stages that leave some out."""
        endless = op_without_end(self.freed.fn) if isinstance(self.freed, ir.Interleave) else None
        if endless is not None:
            return Proof(False, f"{self.freed.fn} may make endless datasets ({endless}), the quickest's first")
        early = who_stops_early(site)
        if early is not None and not 0 <= signature(self.shuffle.input).cardinality <= self.shuffle.capacity:
            return Proof(False, f"{stage(early)} downstream leaves some out, but none of those that are made quickly")
        return Proof(True, "")


@dataclass(frozen=True)
class SameEveryEpoch:
    """A pipeline gives the same elements in the same order whenever it runs.

    Args:
        pipeline: the pipeline.
        drawing: the function whose first part it ends with, if the rest of that function draws.
    """

    pipeline: ir.Node = field(repr=False)
    drawing: Function | None = None

    def check(self, site: Site) -> Proof:
        """Look at every stage for shuffles, randomness, free order and unknown state.

        The author's memory cache holds the elements of the first epoch, whatever comes before it.
        """
        if trees.frees_order(site.pipeline):
            return Proof(False, "options.deterministic=False frees the order of each repetition")
        changes = (what_differs_between_epochs(node, site) for node in _since_a_memory_cache(self.pipeline, site))
        change = next(filter(None, changes), None)
        if change:
            drawn = f"{self.drawing} {effects(self.drawing).describe()}, and before that " if self.drawing else ""
            return Proof(False, drawn + change)
        assumed = "; assumes the files stay as they are" if reads_files(self.pipeline) else ""
        return Proof(True, f"each repetition is the same{assumed}")


def keeps_order(node: ir.Node) -> bool:
    """Return whether a stage keeps its order even where an option frees that of others."""
    return isinstance(node, _IN_ORDER) and not node.is_parallel


def who_fails_now_and_then(pipeline: ir.Node) -> str | None:
    """Return what may fail for an element in one epoch and not in another; ``None`` if there is nothing."""
    for node in trees.walk(pipeline):
        found = [effects(fn) for fn in trees.called_by(node)]
        if isinstance(node, ir.FilesReader | ir.Saved) or any(each.file_reads for each in found):
            return "a file that cannot be read"
        if any(each.stateless_python for each in found):
            return "what Python code fails on"
    return None


@dataclass(frozen=True)
class SameOnAllSides:
    """Equal pipelines that are read side by side give the same elements in the same order."""

    sides: tuple[ir.Node, ...] = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look at every stage: shuffles agree if each draws its order from the same seed, for itself."""
        freed = trees.frees_order(site.pipeline)
        first, *others = self.sides
        drawn = {id(node.origin) for side in others for node in trees.walk(side) if is_reseeded(node)}
        for node in trees.walk(first):
            if freed and not keeps_order(node):
                return Proof(False, f"options.deterministic=False may free the order of {stage(node)}")
            if isinstance(node, ir.Shuffle):
                if node.mixes and (not node.seeded or (is_reseeded(node) and id(node.origin) in drawn)):
                    return Proof(False, f"{stage(node)} gives each side its own order")
                continue
            change = what_differs_between_epochs(node, site)
            if change:
                return Proof(False, change)
        return Proof(True, "all sides read the same elements in the same order")


@dataclass(frozen=True)
class SameElementsEveryEpoch:
    """A pipeline ends, and gives the same elements whenever it runs, though in another order each time."""

    lets_differ: ClassVar[str] = "elements may come in another order"
    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for what depends on the order; if the order is the same too, there is nothing to report."""
        if SameEveryEpoch(self.pipeline).check(site).holds:
            return Proof(False, "")
        endless = next((each for each in trees.walk(self.pipeline) if signature(each).is_infinite), None)
        if endless is not None:
            return Proof(False, f"{stage(endless)} never ends")
        change = _other_elements(self.pipeline, site)
        assumed = "; assumes the files stay as they are" if reads_files(self.pipeline) else ""
        return Proof(False, change) if change else Proof(True, f"only the order differs between epochs{assumed}")


@dataclass(frozen=True)
class NoRepeatAfter:
    """Each epoch has its own iterator: no iterator reads on from a cache that it filled itself."""

    cached: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for a repeat that is not part of what is cached."""
        part = set(trees.walk(self.cached))
        repeats = next(
            (
                node
                for node in trees.walk(site.pipeline)
                if isinstance(node, ir.Repeat) and node.goes_on and node not in part
            ),
            None,
        )
        if repeats is None:
            return Proof(True, "")
        return Proof(False, f"{stage(repeats)} goes on in the iterator that fills the cache, in one order for good")


def _other_elements(node: ir.Node, site: Site) -> str | None:
    """Return what may make elements differ between epochs; ``None`` if nothing does."""
    if not _is_reordered(node, site) and all(
        what_differs_between_epochs(each, site) is None for each in trees.walk(node)
    ):
        return None
    if isinstance(node, ir.Shuffle) and (node.seeded or not node.reshuffle_each_iteration):
        return f"{stage(node)} gives an order that its author chose"
    if not isinstance(node, _WHATEVER_CAME_BEFORE | ir.Shuffle):
        return f"{stage(node)} depends on the order, which differs between epochs"
    counting = next((fn for fn in trees.called_by(node) if op_that_counts(fn)), None)
    if counting is not None and (trees.frees_order(site.pipeline) or op_of_free_order(counting)):
        return f"{counting} depends on the order ({op_that_counts(counting)}), which differs between epochs"
    proofs = (Deterministic(fn).check(site) for fn in trees.called_by(node))
    unsteady = next((proof.because for proof in proofs if not proof.holds), None)
    return unsteady or next(filter(None, (_other_elements(each, site) for each in node.inputs)), None)


def _is_reordered(pipeline: ir.Node, site: Site) -> bool:
    """Return whether an option frees the order of any stage with an input."""
    return trees.frees_order(site.pipeline) and any(node.inputs for node in trees.walk(pipeline))


def _since_a_memory_cache(pipeline: ir.Node, site: Site) -> Iterator[ir.Node]:
    """Yield the stages after a cache that each epoch fills, or else all stages.

    If two readers fill one of the author's caches at once, each has its own order in the first epoch, and both have the
    same order from then on.
    """
    since = [pipeline]
    while isinstance(since[-1], _READING_TO_THE_END):
        since.append(since[-1].input)
    if isinstance(since[-1], ir.SharedCache):
        read_once = sum(node == since[-1] for node in trees.walk(site.pipeline)) == 1
        return iter(since[:-1] if read_once else since)
    kept = trees.is_memory_cache(since[-1])
    return iter(since) if kept else trees.walk(pipeline)


def what_differs_between_epochs(node: ir.Node, site: Site) -> str | None:
    """Return what a stage may do differently in two epochs with the same input; ``None`` if nothing."""
    if getattr(node, "deterministic", None) is False:
        return f"{stage(node)} frees the order of each repetition"
    inside = next((fn for fn in trees.called_by(node) if op_of_free_order(fn)), None)
    if inside is not None:
        return f"{inside} frees the order of each repetition ({op_of_free_order(inside)})"
    if isinstance(node, _STEADY_IF_THEIR_FUNCTIONS_ARE):
        ignoring = next((fn for fn in trees.called_by(node) if op_that_ignores(fn)), None)
        reason = who_fails_now_and_then(node) if ignoring is not None else None
        if reason is not None:
            return f"{reason} in one epoch only would be left out for good, by an ignore_errors() in {ignoring}"
        proofs = (Deterministic(fn).check(site) for fn in trees.called_by(node))
        return next((proof.because for proof in proofs if not proof.holds), None)
    match node:
        case ir.Shuffle():
            return f"{stage(node)} gives each repetition its own order" if node.mixes_anew else None
        case ir.IgnoreErrors():
            reason = who_fails_now_and_then(node.input)
            return f"{reason} in one epoch only would be left out for good, by {stage(node)}" if reason else None
        case ir.SharedCache():
            return f"{stage(node)} holds what was made for the dataset that filled it"
        case ir.Opaque(inside=ir.Node() as settled):
            changes = (what_differs_between_epochs(each, site) for each in trees.walk(settled))
            return next(filter(None, changes), None)
        case ir.AssertCardinality():
            return f"{stage(node)} may fail at the end of a repetition, where cached elements would not"
        case ir.FilesReader() | ir.Saved() if site.asked is Keeps.SEQUENCE:
            return f"{stage(node)} reads files that may change"
        case ir.FilesReader():
            return None
        case ir.Saved(fn=fn):
            proof = Deterministic(fn).check(site)
            return None if proof.holds else proof.because
    return None if isinstance(node, _STEADY) else f"autopipe cannot tell whether {stage(node)} repeats itself"
