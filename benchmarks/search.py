"""How near the searches come to the best of all settings: the tuner inside training, and the one from the command line.

Every setting of a coarse grid is run, and the few best of it again; the best of those is measured beside what the
searches found. A search that was not told what to try first shows what the model of the pipeline is worth.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autopipe
from autopipe.pipeline.knobs import read_knobs
from autopipe.planning.machine import Machine
from autopipe.search_spaces import default
from autopipe.tuning.choices import Choice, Choices
from autopipe.tuning.consumer import StandIn
from autopipe.tuning.session import Session
from autopipe.tuning.structures import OPTIMIZED
from autopipe.tuning.studies import open_study, quiet_optuna
from autopipe.tuning.workbench import LocalWorkbench
from benchmarks.cases._base import Case
from benchmarks.measuring import Ratio, rotated

__all__ = ["BEST", "GIVEN", "LIVE", "OFFLINE", "SEARCHED", "UNSEEDED", "SearchResult", "measure_search"]

GIVEN, LIVE, OFFLINE, UNSEEDED, BEST = "AUTOTUNE", "in training", "offline", "offline, no seeds", "best of the grid"
SEARCHED: Mapping[str, str] = {"flowers_augmented": "naive", "parse_example": "naive", "remote_storage": "expert"}
# An epoch has to be longer than a window of the tuner.
_LARGER = {"remote_storage": {"count": 6000}}
_LIVE_TRIALS, _OFFLINE_TRIALS = 20, 40
_MOST_PER_KNOB = 4
_FINALISTS = 5
_TOGETHER = frozenset({"num_parallel_calls", "use_unbounded_threadpool"})


@dataclass(frozen=True)
class SearchResult:
    """What the searches found for one pipeline, in steps per second of the same rounds.

    Attributes:
        letter, name: the case.
        rates: by who chose the numbers, one for each round.
        knobs: what was chosen, where it differs from the pipeline as given.
        settings: the size of the grid.
    """

    letter: str
    name: str
    rates: Mapping[str, tuple[float, ...]]
    knobs: Mapping[str, Mapping[str, int]]
    settings: int

    def ratio(self, chooser: str, reference: str) -> Ratio:
        """Return how many times as fast one choice is as another, round by round."""
        pairs = zip(self.rates[chooser], self.rates[reference], strict=True)
        return Ratio.around_median([ours / theirs for ours, theirs in pairs])


def measure_search(
    case: Case,
    folder: Path,
    *,
    seconds: float,
    rounds: int,
    final_rounds: int,
    on_step: Callable[[str], None] = lambda step: None,
) -> SearchResult:
    """Search, run the grid, and then everything found in turn.

    Args:
        case: one of :data:`SEARCHED`.
        folder: an empty folder for its data.
        seconds: the length of a turn.
        rounds: how often each of the few best of the grid takes its turn.
        final_rounds: how often each of what was found does. Turns of one setting differ by a third: only many of them
            tell whether two settings do by a few hundredths.
        on_step: told what is being done.
    """
    make_data: Callable[..., Any] = case.make_data
    data = make_data(folder, **_LARGER.get(case.name, {}))
    dataset = autopipe.optimize(getattr(case, SEARCHED[case.name])(data))
    choices = Choices.of(dataset, default)
    bench = LocalWorkbench(choices, StandIn(0.0), seconds)
    given = choices.given
    found: dict[str, Mapping[str, int]] = {GIVEN: given.knobs}
    on_step("search in training")
    found[LIVE] = _tuned_live(dataset, seconds)
    dataset.retune(given.knobs)
    for name, seeded in ((OFFLINE, True), (UNSEEDED, False)):
        on_step(f"search {name}")
        found[name] = _tuned_offline(choices, given, bench, seeded)
    grid = list(_grid(dataset, choices.spaces[OPTIMIZED]))
    rates = []
    for number, knobs in enumerate(grid, 1):
        on_step(f"setting {number} of {len(grid)}")
        rates.append(bench.steps_per_second(Choice(OPTIMIZED, knobs)))
    finalists = sorted(range(len(grid)), key=rates.__getitem__, reverse=True)[:_FINALISTS]

    def in_turn(contenders: Mapping[str, Mapping[str, int]], turns: int, what: str) -> dict[str, tuple[float, ...]]:
        measured: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(turns):
            on_step(f"{what} {number + 1} of {turns}")
            for name in rotated(list(contenders), number):
                measured[name].append(bench.steps_per_second(Choice(OPTIMIZED, contenders[name])))
        return {name: tuple(each) for name, each in measured.items()}

    # The best of many is so by chance too: which it is and how fast it is are measured apart.
    semifinal = in_turn({str(place): grid[place] for place in finalists}, rounds, "semifinal")
    found[BEST] = grid[int(max(semifinal, key=lambda place: math.fsum(semifinal[place])))]
    chosen = {name: _changed(knobs, given.knobs) for name, knobs in found.items()}
    return SearchResult(case.letter, case.name, in_turn(found, final_rounds, "round"), chosen, len(grid))


def _tuned_live(dataset: Any, seconds: float) -> dict[str, int]:
    """Read epoch after epoch as training does, with a tuner that is told of every step."""
    tuner = autopipe.callbacks.PipelineTuner(
        trials=_LIVE_TRIALS, objective="rate", window_seconds=seconds, most_loss=math.inf, verbose=0, seed=0
    )
    end = time.monotonic() + 4 * _LIVE_TRIALS * seconds + 10
    with tuner:
        while not (tuner.search is not None and tuner.search.finished) and time.monotonic() < end:
            for _ in dataset:
                tuner.step()
    return tuner.best


def _tuned_offline(choices: Choices, given: Choice, bench: LocalWorkbench, seeded: bool) -> Mapping[str, int]:
    with quiet_optuna():
        study = open_study(seed=0)
        session = Session(choices, given, bench, study, seeded=seeded)
        session.search(_OFFLINE_TRIALS, time.monotonic() + 600)
        chosen, _ = session.final(time.monotonic() + 60)
    return chosen.knobs


def _grid(dataset: Any, space: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield all combinations of a few values of each knob; those of one kind go together, or they were too many."""
    cores = round(Machine.here().cores)
    kinds: dict[str, list[str]] = {}
    for knob in read_knobs(dataset.tree):
        if knob.name in space:
            kinds.setdefault(knob.field if knob.field in _TOGETHER else knob.name, []).append(knob.name)
    ladder = [-1, *(cores * factor for factor in (1, 4, 16, 32))]
    values = {
        kind: ladder if kind == "num_parallel_calls" else _few(space[names[0]].choices) for kind, names in kinds.items()
    }
    for chosen in itertools.product(*values.values()):
        pairs = zip(kinds.values(), chosen, strict=True)
        yield {**dataset.knobs, **{name: value for names, value in pairs for name in names}}


def _few(values: Sequence[int]) -> list[int]:
    """Return some of the values, the first and the last among them."""
    if len(values) <= _MOST_PER_KNOB:
        return list(values)
    return [values[round(place * (len(values) - 1) / (_MOST_PER_KNOB - 1))] for place in range(_MOST_PER_KNOB)]


def _changed(knobs: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in knobs.items() if value != given[name]}
