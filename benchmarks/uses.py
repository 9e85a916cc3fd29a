"""What autopipe makes of a pipeline, by how its iterators are used: not every one is read to its end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autopipe
from benchmarks.cases._base import Case
from benchmarks.measuring import Ratio, reordered

__all__ = ["USED", "USES", "WRITTEN", "UsesResult", "measure_uses"]

WRITTEN = ("naive", "expert")
"""The pipelines that ``optimize()`` is given."""

USED = ("csv", "flowers", "fused_map", "parse_example", "segmentation", "text")
"""The cases whose iterators are used so; the first epochs of others say no more, or take long."""

_PART = 8


@dataclass(frozen=True)
class _Use:
    """A way to use iterators.

    Attributes:
        title: what is done with each.
        stages: what is put after the pipeline before it is optimized.
        steps: how many batches are taken of so many that an epoch has; ``None`` for all, and their end.
    """

    title: str
    stages: Callable[[Any], Any]
    steps: Callable[[int], int | None]


USES: Mapping[str, _Use] = {
    "whole": _Use("an epoch is read to its end", lambda made: made, lambda epoch: None),
    "steps": _Use("so many steps of a repeat() are taken as an epoch has", lambda made: made.repeat(), lambda n: n),
    "part": _Use(f"the first {_PART}th of an epoch is taken", lambda made: made, lambda n: max(n // _PART, 1)),
}


@dataclass(frozen=True)
class UsesResult:
    """How many times as fast optimized pipelines are as those they were made of.

    Attributes:
        first: in the first round, in which caches fill, by use and pipeline.
        later: in the rounds after it.
    """

    letter: str
    name: str
    first: Mapping[str, Mapping[str, float]]
    later: Mapping[str, Mapping[str, Ratio]]


def measure_uses(
    case: Case, folder: Path, *, rounds: int, on_turn: Callable[[str], None] = lambda turn: None
) -> UsesResult:
    """Use iterators of each pipeline, and of what autopipe makes of it, in turn; each is a new one, and let go."""
    data = case.make_data(folder)
    first: dict[str, dict[str, float]] = {use: {} for use in USES}
    later: dict[str, dict[str, Ratio]] = {use: {} for use in USES}
    for given in WRITTEN:
        epoch = sum(1 for _ in getattr(case, given)(data))
        for name, use in USES.items():
            written = use.stages(getattr(case, given)(data))
            pair = {"written": written, "optimized": autopipe.optimize(written, ram_budget=case.ram_budget)}
            ratios = []
            for number in range(rounds + 1):
                seconds = {}
                for side in reordered(list(pair), number):
                    on_turn(f"{name} of {given}, {side}")
                    seconds[side] = _seconds(pair[side], use.steps(epoch))
                ratios.append(seconds["written"] / seconds["optimized"])
            first[name][given], later[name][given] = ratios[0], Ratio.of(ratios[1:])
    return UsesResult(case.letter, case.name, first, later)


def _seconds(dataset: Any, steps: int | None) -> float:
    began = time.perf_counter()
    for _ in itertools.islice(dataset, steps):
        pass
    return time.perf_counter() - began
