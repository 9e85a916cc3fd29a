"""What a finding is, and what one is found in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from autopipe.optimizer import Refusal
from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage
from autopipe.planning.costs.diagnosis import Diagnosis
from autopipe.planning.costs.profile import StageProfile
from autopipe.planning.measuring.count import most_elements
from autopipe.rules import MeasurementError

__all__ = ["Finding", "Look", "Seen", "at", "before", "held_bytes"]


@dataclass(frozen=True)
class Finding:
    """One thing that stands out.

    Attributes:
        code: stable, such as ``AP101``.
        where: the stage, as text.
        line: where the user wrote it, as ``file.py:12``, if that is known.
        why: what is wrong with it.
        remedy: what to do about it.
        gain: what that would gain, if it was measured.
    """

    code: str
    where: str
    why: str
    remedy: str
    line: str | None = None
    gain: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Seen:
    """What is known of a pipeline: the whole of it, what was measured, if anything was, and what rules refused."""

    tree: ir.Node
    diagnosis: Diagnosis | None = None
    refusals: Sequence[Refusal] = ()

    def cost(self, node: ir.Node) -> StageProfile | None:
        """Return what a stage costs, if it was measured."""
        return self.diagnosis.profile.of(node) if self.diagnosis else None

    def is_slower(self, node: ir.Node, *rules: str) -> bool:
        """Return whether one of these rules was timed at a stage and refused; for stages with equal texts, at all."""
        text = stage(node)
        timed = [each for each in self.refusals if each.timed and each.rule in rules and each.where.endswith(text)]
        # A refusal identifies its stage only by the text.
        return len(timed) >= len({each for each in trees.walk(self.tree) if stage(each) == text})

    def element_bytes(self, node: ir.Node) -> float | None:
        """Return the bytes of one element that a stage gives, if they were measured."""
        stages = self.diagnosis.profile.stages if self.diagnosis else ()
        return next((each.bytes_per_element for each in stages if each.place == node), None)


Look = Callable[[ir.Node, Seen], Iterator[Finding]]


def at(node: ir.Node, code: str, why: str, remedy: str, gain: str | None = None) -> Finding:
    """Return a finding at a stage."""
    return Finding(code, stage(node), why, remedy, node.line, gain)


def before(node: ir.Unary) -> ir.Node:
    """Return the stage a node reads from, skipping those that only buffer elements or set options."""
    return trees.past(node.input, ir.Prefetch | ir.Options | ir.ThreadPool)


def held_bytes(node: ir.Unary, seen: Seen, elements: float = math.inf) -> float | None:
    """Return the bytes of a number of elements of a stage, or of all if there are fewer; ``None`` if unknown."""
    size = seen.element_bytes(node)
    if size is None:
        return None
    with suppress(MeasurementError):
        elements = min(elements, most_elements(node.input))
    return None if math.isinf(elements) else size * elements
