"""How costs grow: of ``optimize()`` with a pipeline's length and elements, of the tuner, and throughput with cores."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import autopipe
from autopipe.tuning.offline.tuning import tune
from autopipe.tuning.search.trial import Trial
from benchmarks.cases._base import Case
from benchmarks.chains import chain
from benchmarks.children import load_data, save_data
from benchmarks.cores import CoreScaling, measure_cores
from benchmarks.measuring import make_variant, rate_of

__all__ = ["ELEMENTS", "STAGES", "PlanningCost", "ScalingResult", "TunerCost", "measure_scaling"]

STAGES = (5, 10, 20, 50, 100)
ELEMENTS = (1_000, 10_000, 100_000, 1_000_000)
_USUAL_STAGES = 10
_USUAL_ELEMENTS = 100_000
_VARIANTS = ("naive", "expert", "autopipe(naive)")


@dataclass(frozen=True)
class PlanningCost:
    """What ``optimize()`` takes for one pipeline of cheap stages.

    Attributes:
        stages: how many stages it has.
        elements: how many elements its source has.
        seconds: each time it was tried.
        rewrites: how many rules were applied the last time.
        failure: why there is no figure, where ``optimize()`` raised.
    """

    stages: int
    elements: int
    seconds: tuple[float, ...]
    rewrites: int = 0
    failure: str = ""


@dataclass(frozen=True)
class TunerCost:
    """What the tuner takes while a loop reads the pipeline as fast as it can.

    Attributes:
        letter: the letter of the case.
        name: its name.
        seconds: the whole search; the pipeline is read all the time.
        trial_seconds: the part of it in the windows of challengers.
        lost_seconds: what it cost that challengers were slower than their neighbours; below 0 if they were faster.
        trials: challengers measured.
        kept: those that became the incumbent.
        rate_before: units per second before the search.
        rate_after: and after it.
    """

    letter: str
    name: str
    seconds: float
    trial_seconds: float
    lost_seconds: float
    trials: int
    kept: int
    rate_before: float
    rate_after: float


@dataclass(frozen=True)
class ScalingResult:
    """All of it."""

    by_stages: tuple[PlanningCost, ...]
    by_elements: tuple[PlanningCost, ...]
    cores: tuple[CoreScaling, ...]
    tuner: tuple[TunerCost, ...]


def measure_scaling(
    cases: Sequence[Case],
    *,
    repeats: int,
    least_seconds: float,
    tuning_seconds: float,
    stages: Sequence[int] = STAGES,
    elements: Sequence[int] = ELEMENTS,
    on_step: Callable[[str], None] = lambda step: None,
) -> ScalingResult:
    """Measure how costs grow.

    Args:
        cases: those whose throughput and tuning are measured; by name they are found again in other processes.
        repeats: how often ``optimize()`` is tried on each pipeline, and each number of cores takes its turn.
        least_seconds: how long a turn lasts.
        tuning_seconds: how long the tuner may work; 0 leaves it out.
        stages: the lengths of pipelines.
        elements: the numbers of elements.
        on_step: told of each step before it is taken.
    """
    lengths = [(count, _USUAL_ELEMENTS) for count in stages]
    sizes = [(_USUAL_STAGES, count) for count in elements]
    costs = _planning_costs([*lengths, *sizes], repeats, on_step)
    cores: list[CoreScaling] = []
    tuner: list[TunerCost] = []
    for case in cases:
        with TemporaryDirectory() as made:
            folder = Path(made)
            save_data(case, folder)
            # Only some systems let a process choose its cores.
            for variant in _VARIANTS if hasattr(os, "sched_setaffinity") else ():
                on_step(f"cores: {case.name}, {variant}")
                cores.append(measure_cores(case, variant, folder, rounds=repeats, least_seconds=least_seconds))
            if tuning_seconds:
                on_step(f"tuner: {case.name}")
                tuner.append(_tuner_cost(case, folder, tuning_seconds, least_seconds))
        gc.collect()
    return ScalingResult(tuple(costs[: len(lengths)]), tuple(costs[len(lengths) :]), tuple(cores), tuple(tuner))


def _planning_costs(
    shapes: Sequence[tuple[int, int]], repeats: int, on_step: Callable[[str], None]
) -> list[PlanningCost]:
    """Try all shapes in every round, so that drift hits all alike."""
    tried: list[list[PlanningCost]] = [[] for _ in shapes]
    for _ in range(repeats):
        for costs, (stages, elements) in zip(tried, shapes, strict=True):
            on_step(f"optimize: {stages} stages, {elements:,} elements")
            costs.append(_planning_cost(stages, elements))
    return [
        PlanningCost(stages, elements, sum((each.seconds for each in costs), ()), costs[-1].rewrites, costs[-1].failure)
        for costs, (stages, elements) in zip(tried, shapes, strict=True)
    ]


def _planning_cost(stages: int, elements: int) -> PlanningCost:
    dataset = chain(stages, elements)
    began = time.perf_counter()
    try:
        optimized = autopipe.optimize(dataset)
    except autopipe.AutopipeError as error:
        return PlanningCost(stages, elements, (time.perf_counter() - began,), failure=str(error))
    return PlanningCost(stages, elements, (time.perf_counter() - began,), len(optimized.plan.rules))


def _tuner_cost(case: Case, folder: Path, seconds: float, least_seconds: float) -> TunerCost:
    dataset = make_variant(case, "autopipe(naive)", load_data(folder), tuning_seconds=0.0)
    rate_of(dataset)
    before = rate_of(dataset, least_seconds)
    trials: list[Trial] = []
    began = time.perf_counter()
    tune(dataset, seconds=seconds, on_trial=trials.append)
    took = time.perf_counter() - began
    rate_of(dataset)
    return TunerCost(
        case.letter,
        case.name,
        took,
        trial_seconds=sum(trial.seconds for trial in trials),
        # A window in which it was read at half the speed is worth half its length.
        lost_seconds=-sum(trial.seconds * trial.gain for trial in trials),
        trials=len(trials),
        kept=sum(trial.kept for trial in trials),
        rate_before=before,
        rate_after=rate_of(dataset, least_seconds),
    )
