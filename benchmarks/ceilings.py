"""The best rate that ``explain`` states, beside the best of all settings of the knobs, tried one by one."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import read_knobs, with_thread_pool
from autopipe.planning.costs.ceiling import rate_with
from autopipe.planning.costs.diagnosis import diagnose
from benchmarks import planted

__all__ = ["PIPELINES", "CeilingResult", "measure_ceiling"]

PIPELINES: tuple[str, ...] = (*planted.PLANTED, "waiting")
_CALLS = (1, 2, 4, 16, 64)
_THREADS = (0, 2, 64)
_FINALISTS = 3


@dataclass(frozen=True)
class CeilingResult:
    """What was stated of one pipeline, and what was found by trying everything.

    Attributes:
        name: the pipeline.
        stated: elements per second, by ``explain``.
        best: elements per second with the best knobs, in each of the runs that decided which they are.
        knobs: those knobs.
        settings: how many were tried.
    """

    name: str
    stated: float
    best: tuple[float, ...]
    knobs: Mapping[str, int]
    settings: int

    @property
    def ratio(self) -> float:
        """What was stated, for each element of the best."""
        return self.stated / statistics.median(self.best)


def measure_ceiling(
    name: str,
    *,
    diagnosis_seconds: float,
    seconds: float,
    repeats: int,
    on_setting: Callable[[int], None] = lambda settings: None,
) -> CeilingResult:
    """Diagnose a pipeline, then run it with every setting.

    The best of many noisy figures is too high, so the few best are run again, in turn, and their medians decide.

    Args:
        name: one of :data:`PIPELINES`.
        diagnosis_seconds: time given to the diagnosis.
        seconds: how long each setting runs.
        repeats: how often the few best run again.
        on_setting: told how many settings there are, before each.
    """
    tree = extract(getattr(planted, name)())
    stated = diagnose(tree, diagnosis_seconds).ceiling.rate
    tunable = with_thread_pool(tree)
    settings = list(_settings(tunable))
    rates = []
    for knobs in settings:
        on_setting(len(settings))
        rates.append(rate_with(tunable, knobs, seconds))
    order = sorted(range(len(settings)), key=rates.__getitem__, reverse=True)[:_FINALISTS]
    again: dict[int, list[float]] = {place: [] for place in order}
    for _ in range(repeats):
        for place in order:
            again[place].append(rate_with(tunable, settings[place], seconds))
    best = max(order, key=lambda place: statistics.median(again[place]))
    return CeilingResult(name, stated, tuple(again[best]), settings[best], len(settings))


def _settings(tree: ir.Node) -> Iterator[dict[str, Any]]:
    """Yield every combination of calls and threads; TensorFlow's own choice of each is among them."""
    ranges = {}
    for knob in read_knobs(tree):
        if knob.field == "num_parallel_calls":
            ranges[knob.name] = sorted({knob.automatic, *(min(calls, knob.most or calls) for calls in _CALLS)})
        elif knob.field == "size":
            ranges[knob.name] = list(_THREADS)
    for values in itertools.product(*ranges.values()):
        yield dict(zip(ranges, values, strict=True))
