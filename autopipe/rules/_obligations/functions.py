"""What must be proved about a function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from autopipe.functions.analysis.effects import Effects, effects
from autopipe.functions.analysis.rounding import jumps
from autopipe.functions.analysis.rows import who_mixes_rows
from autopipe.functions.analysis.work import work_of
from autopipe.functions.batched.vectorize import why_not_vectorizable
from autopipe.functions.function import Function
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.draws import draw_first
from autopipe.functions.parts.fixed_part import first_change, fixed_work, split_fixed_part
from autopipe.pipeline import trees
from autopipe.rules._base import Keeps, Proof, Site

__all__ = [
    "CallsUnseen",
    "Deterministic",
    "DrawnInTurn",
    "DrawsApart",
    "HasBatchedForm",
    "NoSideEffects",
    "OrderUnseen",
    "Pure",
    "RoundingUnseen",
    "RowsApart",
    "SameBits",
    "SharedWork",
    "WorkBeforeChange",
    "WorkOnSides",
]


@dataclass(frozen=True)
class CallsUnseen:
    """It cannot be observed on which elements, and in which order, the function runs."""

    fn: Function

    @property
    def holds(self) -> bool:
        """Whether that is so, wherever the function stands."""
        return replace(effects(self.fn), unseeded_random=()).steady

    def check(self, site: Site) -> Proof:
        """Allow what only computes, reads files, draws without a seed or is declared stateless."""
        found = effects(self.fn)
        if self.holds:
            return Proof(True, f"{self.fn} {found.describe()}, so it may run on fewer elements and in any order")
        noticed = "and it could be noticed that it runs on other elements or in another order"
        return Proof(False, f"{self.fn} {found.describe()}, {noticed}")


@dataclass(frozen=True)
class Deterministic:
    """The function gives the same result for the same element in every epoch."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Look at every op; a file counts as unchanged, unless the sequence was asked for."""
        found = effects(self.fn)
        if not found.steady:
            return Proof(False, f"{self.fn} {found.describe()}, so each epoch must run it again")
        if not found.file_reads:
            return Proof(True, f"{self.fn} {found.describe()}, so every epoch repeats the same result")
        if site.asked is Keeps.SEQUENCE:
            return Proof(False, f"{self.fn} {found.describe()}, which may change between epochs")
        return Proof(True, f"{self.fn} {found.describe()}; assumes the files stay as they are")


@dataclass(frozen=True)
class DrawsApart:
    """The random draws of a function can be separated from the work that uses them."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Cut the function where it draws."""
        try:
            draw_first(self.fn)
        except IllegalCutError as reason:
            return Proof(False, str(reason))
        return Proof(True, f"what {self.fn} draws does not depend on its other work")


@dataclass(frozen=True)
class DrawnInTurn:
    """The functions of several sides draw from their generators in the same order as before.

    Args:
        functions: those of the sides.
        one_by_one: whether they were called in turn for each element, and not for whole batches.
    """

    functions: tuple[Function, ...]
    one_by_one: bool

    def check(self, site: Site) -> Proof:
        """Look for two that may share a generator: for whole batches, each side drew for all elements at once."""
        drawing = [fn for fn in self.functions if effects(fn).generator]
        if self.one_by_one or len(drawing) < 2:
            return Proof(True, "")
        both = " and ".join(dict.fromkeys(map(str, drawing)))
        if site.demanded is not Keeps.TRAINING:
            return Proof(False, f"{both} draw from generators, for all elements of a side at once")
        return Proof(True, f"{both} draw from generators, and which element gets which draw is free", Keeps.TRAINING)


@dataclass(frozen=True)
class HasBatchedForm:
    """A function of one element can be turned into a function of a batch."""

    fn: Function
    batch_size: int | None

    def check(self, site: Site) -> Proof:
        """Trace the batched form."""
        reason = why_not_vectorizable(self.fn, self.batch_size)
        return Proof(not reason, reason or f"{self.fn} only computes, and every op of it has a batched form")


@dataclass(frozen=True)
class Pure:
    """The function only computes."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Look at every op."""
        found = effects(self.fn)
        return Proof(found.pure, f"{self.fn} {found.describe()}")


@dataclass(frozen=True)
class NoSideEffects:
    """The function has no side effects that other code could see."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Allow what only computes, reads or draws: called as often, in the same order, results are the same."""
        found = effects(self.fn)
        if found.has_side_effects:
            return Proof(False, f"{self.fn} {found.describe()}, which other code may see earlier or later than now")
        return Proof(True, f"{self.fn} {found.describe()}, once for each element as before")


@dataclass(frozen=True)
class OrderUnseen:
    """The order, the read-ahead and the number of calls of the function can be observed only by its results."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Allow what may run at any time, draws without a seed, or reads variables the pipeline does not assign."""
        found = effects(self.fn)
        loose = Effects(unseeded_random=found.unseeded_random, variable_reads=found.variable_reads)
        if not replace(found, unseeded_random=(), variable_reads=()).steady:
            return Proof(False, f"{self.fn} {found.describe()}, and this would change when it does")
        if loose != Effects() and site.demanded is not Keeps.TRAINING:
            return Proof(False, f"{self.fn} {found.describe()}, and keeps={site.demanded} fixes when it does")
        if found.variable_reads:
            return _assigned_elsewhere(self.fn, site)
        if found.unseeded_random:
            because = f"{self.fn} {found.describe()}, and which element gets which draw was never fixed"
            return Proof(True, because, Keeps.TRAINING)
        return Proof(True, f"{self.fn} {found.describe()}, and elements stay in order")


def _assigned_elsewhere(fn: Function, site: Site) -> Proof:
    for other in trees.functions(site.pipeline):
        found = effects(other)
        if found.has_side_effects:
            traces = Effects(python=found.python, other=found.other).describe()
            return Proof(False, f"{fn} reads a variable, and {other} {traces}, which may assign it")
    because = f"{fn} reads a variable: one assigned during an epoch takes effect up to some dozens of elements later"
    return Proof(True, because, Keeps.TRAINING)


@dataclass(frozen=True)
class WorkOnSides:
    """A function of zipped elements does work that needs only one side and is the same in every epoch.

    Args:
        fn: the function.
        parts: its work on each side.
    """

    fn: Function
    parts: tuple[Function, ...]

    def check(self, site: Site) -> Proof:
        """Name the work; the parts are there."""
        work = "; ".join(fixed_work(part) for part in self.parts)
        return Proof(True, f"{self.fn}'s work on one side alone runs once for each element of that side: {work}")


@dataclass(frozen=True)
class RoundingUnseen:
    """Nothing downstream turns a rounding difference into a larger one.

    Args:
        jump: an op of the rewritten part that might, after the place that rounds differently.
        where: where that place is.
    """

    jump: str | None = None
    where: str = "in a function that is cut or joined with another"

    @property
    def lets_differ(self) -> str:
        """How the result may differ from the sequence."""
        return f"floats may round differently {self.where}"

    def check(self, site: Site) -> Proof:
        """Look at the functions downstream: a filter on a float may let an element pass that it kept out before."""
        if self.jump:
            return Proof(False, f"its own {self.jump} may turn a rounding difference into a larger one")
        below = set(trees.walk(site.node))
        for node in trees.walk(site.pipeline):
            if node in below or site.node not in trees.walk(node):
                continue
            for fn in trees.called_by(node):
                if jump := jumps(fn):
                    return Proof(False, f"{fn} downstream may turn a rounding difference into a larger one ({jump})")
        return Proof(True, "")


@dataclass(frozen=True)
class RowsApart:
    """The function treats each row of a batch alike, whatever the other rows are."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Follow the rows through every op."""
        mixing = who_mixes_rows(self.fn)
        if mixing is None:
            return Proof(True, f"every op of {self.fn} treats each row of a batch by itself")
        return Proof(False, f"what {self.fn} makes of a row may depend on other rows of its batch: {mixing}")


@dataclass(frozen=True)
class SameBits:
    """Ops that replace others give the same bits.

    Args:
        instead: which ops replace which.
    """

    instead: str

    def check(self, site: Site) -> Proof:
        """Name the ops; only such ops are replaced."""
        return Proof(True, f"each value is the result of the same operation on the same values: {self.instead}")


@dataclass(frozen=True)
class SharedWork:
    """Work that is the same on all sides is done once.

    Args:
        shared: the ops whose results serve several sides.
    """

    shared: tuple[Any, ...] = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Name the work; only deterministic ops are shared."""
        work = work_of(self.shared)
        return Proof(True, f"work that all sides have in common is shared: {work}" if work else "")


@dataclass(frozen=True)
class WorkBeforeChange:
    """A function does work that is the same in every epoch, and can be cut after it."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Cut the function before the first op that may give another result."""
        try:
            parts = split_fixed_part(self.fn)
        except IllegalCutError as reason:
            return Proof(False, str(reason))
        if parts is None:
            return Proof(True, f"nothing in {self.fn} changes: {fixed_work(self.fn)} run once, not in every epoch")
        changing = f"what differs begins with {first_change(self.fn)}"
        return Proof(True, f"{fixed_work(parts[0])} run once, not in every epoch; {changing}")
