"""What a rule is: a shape it matches, what the shape becomes, and what must be proved first."""

from __future__ import annotations

import enum
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from autopipe.pipeline import ir

__all__ = [
    "Keeps",
    "MeasurementError",
    "Measurements",
    "Obligation",
    "Proof",
    "Rewrite",
    "Rule",
    "Site",
    "catalogue",
    "rule",
]


class Keeps(enum.IntEnum):
    """What a rewritten pipeline promises, weakest first."""

    TRAINING = 0
    """Also what leaves SGD equivalent: sharper epoch boundaries, other draws of a random augmentation."""
    ELEMENTS = 1
    """The same elements in every epoch; other order only where it was free already; float rounding."""
    SEQUENCE = 2
    """The same values in the same order."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Proof:
    """Whether an obligation holds, and the sentence that says why."""

    holds: bool
    because: str


class MeasurementError(Exception):
    """A sample of the user's elements could not be run; the message says why."""


class Measurements(Protocol):
    """What obligations may ask about the user's own elements; every answer comes from running them."""

    @property
    def ram_budget(self) -> int:
        """Bytes of memory that may be added."""
        ...

    def cache_bytes(self, node: ir.Node) -> int:
        """Return the bytes that all elements of ``node`` take in memory."""
        ...

    def same(self, before: ir.Node, after: ir.Node, over: ir.Node, exact: bool) -> str | None:
        """Return how two pipelines over a sample of ``over`` differ; ``None`` when they do not."""
        ...

    def speed(self, before: ir.Node, after: ir.Node, over: ir.Node) -> tuple[float, float, float]:
        """Return the median, lowest and highest ratio of the speeds of after and before."""
        ...


@dataclass(frozen=True)
class Site:
    """Where a rule wants to act: the node, the whole pipeline, what must be kept there, and a way to measure."""

    node: ir.Node
    pipeline: ir.Node
    demanded: Keeps
    measurements: Measurements


class Obligation(Protocol):
    """Something that must be proved before a rewrite may happen. Unknown is a failure."""

    def check(self, site: Site) -> Proof:
        """Return the proof, or why there is none."""
        ...


@dataclass(frozen=True)
class Rewrite:
    """What a site would become, provided that the obligations hold. ``keeps`` replaces the rule's own."""

    result: ir.Node
    provided: tuple[Obligation, ...] = ()
    keeps: Keeps | None = None


@dataclass(frozen=True)
class Rule:
    """A named rewrite. Calling it on a node gives what the node would become, or ``None``.

    Attributes:
        last: whether it waits until no other rule applies, since what it makes hides the shapes they look for.
    """

    name: str
    keeps: Keeps
    match: Callable[[Any], Rewrite | None]
    last: bool = False

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


def rule(*, keeps: Keeps, last: bool = False) -> Callable[[Callable[[Any], Rewrite | None]], Rule]:
    """Make a rule of a function; the rule is named as the function is."""
    return lambda match: Rule(match.__name__, keeps, match, last)


@lru_cache(maxsize=1)
def catalogue() -> tuple[Rule, ...]:
    """Return every rule, in the order they are tried. Each file of this package is one; there is no list to edit.

    >>> [rule.name for rule in catalogue()][:2]
    ['cache_after_map', 'parallel_map']
    """
    package = importlib.import_module("autopipe.rules")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name[0] != "_")
    rules = [getattr(importlib.import_module(f"autopipe.rules.{name}"), name) for name in names]
    return tuple(sorted(rules, key=lambda rule: rule.last))
