"""Applying a plan again, without timing again what it found to be faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from autopipe.optimizer import Rewriting, Step, rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.knobs import read_knobs
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps, Proof, Rule

__all__ = ["replay"]

_FASTER = (math.inf, math.inf, math.inf)
_WORTH_CACHING = (math.inf, 0.0)
_WAITS = (math.inf, 0.0)
_GRANTED = "not measured: the rules are those of the plan"
# Samples for proofs take little time, unless elements take long, or there are many steps to prove.
_SECONDS, _SECONDS_A_STEP = 2.0, 0.25


def replay(
    tree: ir.Node, plan: Plan, rules: Sequence[Rule], *, keeps: Keeps, measurements: SampleMeasurements
) -> Rewriting | None:
    """Apply the rules of a plan wherever they are safe, assuming that they make this pipeline faster.

    Timing again sometimes gives another result: on another machine, or if two forms are nearly as fast. The numbers of
    the plan are for the stages it was made with, so these must result again: by the same rules in the same order, at
    the same places. If an older plan lacks the places, none of its rules may apply once more after that. What safety
    requires (the same results on a sample, room in memory) is proved again, briefly even if no time is given to
    measure: nothing is timed, and samples are small.

    Args:
        tree: the pipeline as it was written.
        plan: the plan, which is for this pipeline.
        rules: the rules it names.
        keeps: its promise.
        measurements: answers questions about the user's elements.

    Returns:
        The rewriting; ``None`` if it is not that of the plan: a rule is not safe here, or may apply where it was not
        faster, or a knob of the plan does not exist. Then everything has to be measured.
    """
    seconds = max(measurements.seconds, _SECONDS + _SECONDS_A_STEP * len(plan.rules))
    granted = _AsPlanned(measurements.ram_budget, seconds, disk=measurements.disk)
    named = {rule.name: rule for rule in rules}
    script = [(named[name], place) for name, place in zip_longest(plan.rules, plan.places)]
    found = rewrite(tree, () if plan.places else rules, keeps=keeps, measurements=granted, script=script)
    if tuple(step.rule for step in found.steps) != plan.rules:
        return None
    if not plan.knobs.keys() <= {knob.name for knob in read_knobs(found.tunable)}:
        return None
    beside = granted.bytes_beside_caches(found.after)
    if found.new_cache_bytes and found.new_cache_bytes + beside > granted.ram_budget:
        return None
    return replace(found, steps=tuple(map(_as_planned, found.steps)), whole=_GRANTED if found.steps else None)


class _AsPlanned(SampleMeasurements):
    """Times nothing: the plan says that it was worth it."""

    @property
    def follows_plan(self) -> bool:
        """Whether a plan is applied again."""
        return True

    def speed(self, before: ir.Node, after: ir.Node, over: ir.Node | None) -> tuple[float, float, float]:
        """Return that the later form is faster."""
        return _FASTER

    def caching(self, node: ir.Node, *, on_disk: bool = False) -> tuple[float, float]:
        """Return that a cache saves all the time."""
        return _WORTH_CACHING

    def working(self, mapped: ir.Map) -> tuple[float, float]:
        """Return that a call only waits."""
        return _WAITS


def _as_planned(step: Step) -> Step:
    """Return the step with the plan as the reason in place of a measured time."""
    return replace(step, proofs=tuple(map(_granted, step.proofs)))


def _granted(proof: Proof) -> Proof:
    return replace(proof, because="the plan found it to be faster") if proof.timed else proof
