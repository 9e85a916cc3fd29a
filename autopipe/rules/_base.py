"""What a rule is: a shape it matches, what the shape becomes, and what must be proved first."""

from __future__ import annotations

import enum
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from types import CodeType, FunctionType
from typing import Any, Protocol

from autopipe.pipeline import ir

__all__ = [
    "Keeps",
    "MeasurementError",
    "Measurements",
    "Obligation",
    "Phase",
    "Proof",
    "Rewrite",
    "Rule",
    "Site",
    "catalogue",
    "decides_caches",
    "refuses_unmeasured",
    "rule",
]


class Keeps(enum.IntEnum):
    """What a rewritten pipeline promises, weakest first."""

    TRAINING = 0
    """Also allows what leaves SGD equivalent: sharper epoch boundaries, other draws of a random augmentation, and a
    variable assigned during an epoch that takes effect some dozens of elements later."""
    ELEMENTS = 1
    """The same elements in every epoch; other order only where it was free already; float rounding."""
    SEQUENCE = 2
    """The same values in the same order."""

    def __str__(self) -> str:
        return self.name.lower()


class Phase(enum.IntEnum):
    """When rules are tried: a later one only where no earlier one applies, since it hides the shapes they look for."""

    OPEN = 0
    """Work inside a stage becomes a separate stage, visible to other rules."""
    JOIN = 1
    """Equal work of two branches is merged."""
    ARRANGE = 2
    """Stages are dropped, moved and merged."""
    BATCH = 3
    """Work on single elements becomes work on batches."""
    GATHER = 4
    """Whole batches are gathered from arrays in memory, or skipped before they are made."""
    OVERLAP = 5
    """Calls and reads run at once and ahead of the consumer."""


@dataclass(frozen=True)
class Proof:
    """Whether an obligation holds.

    Attributes:
        holds: whether it does.
        because: the sentence that says why; empty if it would not interest the user.
        keeps: the strongest promise under which it holds.
        timed: whether a timing decided, which may differ from run to run.
    """

    holds: bool
    because: str
    keeps: Keeps = Keeps.SEQUENCE
    timed: bool = False


class MeasurementError(Exception):
    """A sample of the user's elements could not be run; the message says why."""


class Measurements(Protocol):
    """What obligations may ask about the user's own elements; every answer comes from running them."""

    @property
    def ram_budget(self) -> int:
        """Bytes of memory that may be added."""
        ...

    def bytes_beside_caches(self, pipeline: ir.Node) -> int:
        """Return the bytes that measuring has taken, and that buffers ahead of the consumer will take."""
        ...

    @property
    def cores(self) -> float:
        """How many cores may work at once."""
        ...

    @property
    def follows_plan(self) -> bool:
        """Whether a plan is applied again, whose rules were chosen by what was measured then."""
        ...

    @property
    def exhausted(self) -> str | None:
        """Why nothing more can be measured; ``None`` while something can."""
        ...

    def element_bytes(self, node: ir.Node) -> float:
        """Return the bytes that one element of ``node`` takes in memory, on average."""
        ...

    def cache_bytes(self, node: ir.Node) -> int:
        """Return the bytes that all elements of ``node`` take in memory."""
        ...

    def most_elements(self, node: ir.Node) -> int:
        """Return the largest number of elements ``node`` may have."""
        ...

    def same(self, before: ir.Node, after: ir.Node, over: ir.Node, exact: bool) -> str | None:
        """Return how two pipelines over a sample of ``over`` differ; ``None`` when they do not."""
        ...

    def caching(self, node: ir.Node, *, on_disk: bool = False) -> tuple[float, float]:
        """Return the seconds it takes to make one element of ``node``, and to read it from a cache."""
        ...

    def filling(self, node: ir.Node, buffer_size: float) -> tuple[int, float]:
        """Return how many elements of ``node`` fill a buffer, or are all there are, and the seconds to make them."""
        ...

    def working(self, mapped: ir.Map) -> tuple[float, float]:
        """Return the seconds that a call of a map takes by itself, and for how many of them it needs a core."""
        ...

    @property
    def disk_free(self) -> int | None:
        """Free bytes on the disk of the user's folder for caches; ``None`` if no folder was named."""
        ...

    def keep_on_disk(self, node: ir.Node) -> str:
        """Return the file in which the elements of ``node`` are, or will be, kept."""
        ...

    def speed(self, before: ir.Node, after: ir.Node, over: ir.Node | None) -> tuple[float, float, float]:
        """Return the median ratio of the speeds of after and before on a sample of ``over``, and an interval around it.

        If ``over`` is ``None``, both are endless, and run from their sources. The ends of the interval are order
        statistics; the true median lies between them two times in three.
        """
        ...


@dataclass(frozen=True)
class Site:
    """Where a rule wants to act.

    Attributes:
        node: the node it matched.
        pipeline: the whole pipeline.
        demanded: what must be kept there; a seed demands the sequence, whatever was asked for.
        asked: what the caller asked for.
        measurements: a way to measure.
    """

    node: ir.Node
    pipeline: ir.Node
    demanded: Keeps
    asked: Keeps
    measurements: Measurements


_Check = Callable[[Any, Site], Proof]


class Obligation(Protocol):
    """Something that must be proved before a rewrite may happen. Unknown is a failure.

    An obligation of rules that do not keep the sequence may have ``lets_differ``: how the result may differ from it.
    """

    def check(self, site: Site) -> Proof:
        """Return the proof, or why there is none."""
        ...


def refuses_unmeasured(why: str) -> Callable[[_Check], _Check]:
    """Make the ``check`` of an obligation refuse if a sample could not be run, saying why.

    >>> class Timed:
    ...     @refuses_unmeasured("it could not be timed")
    ...     def check(self, site):
    ...         raise MeasurementError("the pipeline has no elements")
    >>> Timed().check(None).because
    'it could not be timed: the pipeline has no elements'
    """

    def refusing(check: _Check) -> _Check:
        @wraps(check)
        def checked(self: Any, site: Site) -> Proof:
            try:
                return check(self, site)
            except MeasurementError as unknown:
                return Proof(False, f"{why}: {unknown}")

        return checked

    return refusing


@dataclass(frozen=True)
class Rewrite:
    """What a site would become if the obligations hold. ``keeps`` replaces that of the rule."""

    result: ir.Node
    provided: tuple[Obligation, ...] = ()
    keeps: Keeps | None = None


@dataclass(frozen=True)
class Rule:
    """A named rewrite. Calling it on a node returns what the node would become, or ``None``."""

    name: str
    keeps: Keeps
    match: Callable[[Any], Rewrite | None]
    phase: Phase = Phase.ARRANGE

    def __call__(self, node: ir.Node) -> Rewrite | None:
        return self.match(node)

    @property
    def shape(self) -> str:
        """The first line of its docstring: ``before -> after``."""
        return (self.match.__doc__ or "").strip().splitlines()[0]

    @property
    def argument(self) -> str:
        """The rest of its docstring: why it is safe."""
        lines = (self.match.__doc__ or "").strip().splitlines()[1:]
        return "\n".join(line.strip() for line in lines).strip()

    @property
    def obligations(self) -> tuple[str, ...]:
        """The names of the obligations it may have, in alphabetical order."""
        return tuple(self._obligations)

    @property
    def sentences(self) -> dict[str, str]:
        """The first line of each obligation's docstring, by the name of the obligation."""
        return {name: (each.__doc__ or "").splitlines()[0] for name, each in self._obligations.items()}

    @property
    def measures(self) -> bool:
        """Whether it may have an obligation that is checked by running a sample."""
        return any(getattr(value, "measures", False) for value in self._obligations.values())

    def may_ask(self, obligation: type) -> bool:
        """Return whether it may have that obligation."""
        return obligation in self._obligations.values()

    @cached_property
    def _obligations(self) -> dict[str, type]:
        if not isinstance(self.match, FunctionType):
            return {}
        seen = {name: self.match.__globals__.get(name) for name in sorted(_names_used(self.match.__code__))}
        return {name: value for name, value in seen.items() if isinstance(value, type) and hasattr(value, "check")}


def rule(*, keeps: Keeps, phase: Phase = Phase.ARRANGE) -> Callable[[Callable[[Any], Rewrite | None]], Rule]:
    """Make a rule of a function; the rule has the name of the function."""
    return lambda match: Rule(match.__name__, keeps, match, phase)


def _names_used(code: CodeType) -> set[str]:
    """Return the global names in a function, and in those written inside it."""
    inner = (_names_used(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def decides_caches(name: str) -> bool:
    """Return whether a rule adds a cache or decides what one holds; only such rules have names that begin with "cache".

    >>> decides_caches("cache_after_map"), decides_caches("parallel_map")
    (True, False)
    """
    return name.startswith("cache")


@lru_cache(maxsize=1)
def catalogue() -> tuple[Rule, ...]:
    """Return every rule, in the order they are tried. Each file of this package is one; there is no list to edit.

    >>> [rule.name for rule in catalogue()][:2]
    ['map_after_interleave', 'join_equal_sides']
    """
    package = importlib.import_module("autopipe.rules")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name[0] != "_")
    rules = [getattr(importlib.import_module(f"autopipe.rules.{name}"), name) for name in names]
    return tuple(sorted(rules, key=lambda rule: rule.phase))
