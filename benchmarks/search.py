"""How near the searches come to the best of all settings: the tuner inside training, and the one from the command line.

Every setting of a coarse grid over all structures is run, and the few best of it again; the best of those, and the best
of the structure that is trained with, are measured beside what the searches found. Searches that were not told what to
try first show what being told is worth.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autopipe
from autopipe.pipeline.knobs import Knob, read_knobs
from autopipe.planning.costs.consumer import StandIn
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import default
from autopipe.tuning.offline.choices import Choice, Choices
from autopipe.tuning.offline.session import Session
from autopipe.tuning.offline.structures import OPTIMIZED, structures
from autopipe.tuning.offline.workbench import LocalWorkbench
from autopipe.tuning.studies import open_study, quiet_optuna
from benchmarks.cases._base import Case
from benchmarks.measuring import Ratio

__all__ = [
    "BEST",
    "BEST_NUMBERS",
    "GIVEN",
    "LIVE",
    "OFFLINE",
    "SEARCHED",
    "SHORT",
    "SHORT_TRIALS",
    "SHORT_UNSEEDED",
    "UNSEEDED",
    "SearchResult",
    "measure_search",
]

GIVEN, LIVE, OFFLINE, UNSEEDED = "AUTOTUNE", "in training", "offline", "offline, no seeds"
BEST, BEST_NUMBERS = "best of the grid", "best of the same knobs"
SHORT, SHORT_UNSEEDED = "offline, short", "offline, short, no seeds"
# Of flowers and examples the optimized pipeline is about the best there is; the others have something to gain.
SEARCHED: Mapping[str, str] = {
    "flowers_augmented": "naive",
    "artificial": "expert",
    "parse_example": "naive",
    "remote_storage": "expert",
    "python_function": "naive",
}
# An epoch has to be longer than a window of the tuner.
_LARGER = {"remote_storage": {"count": 6000}, "artificial": {"files": 100}}
_LIVE_TRIALS = 20
SHORT_TRIALS = 8
_MOST_PER_KNOB = 4
_FINALISTS = 5
_TOGETHER = frozenset({"num_parallel_calls", "use_unbounded_threadpool"})
# Whether a search is told what to try first, how many trials it has, and how many such searches there are.
_SEARCHES: Mapping[str, tuple[bool, int, int]] = {
    OFFLINE: (True, 40, 1),
    UNSEEDED: (False, 40, 1),
    SHORT: (True, SHORT_TRIALS, 1),
    SHORT_UNSEEDED: (False, SHORT_TRIALS, 3),
}


@dataclass(frozen=True)
class SearchResult:
    """What the searches found for one pipeline, in steps per second of the same rounds.

    Attributes:
        letter, name: the case.
        rates: by who chose, one for each round; the mean where several searches did.
        structures: what was chosen, of the first search where there were several.
        knobs: the numbers chosen with it, where they differ from those that the structure has by itself.
        settings: the size of the grid.
    """

    letter: str
    name: str
    rates: Mapping[str, tuple[float, ...]]
    structures: Mapping[str, str]
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
    choices = Choices.of(dataset, default, structures(dataset))
    own_knobs = {name: dict(each.knobs) for name, each in choices.datasets.items()}
    bench = LocalWorkbench(choices, StandIn(0.0), seconds)
    given = choices.given
    on_step("search in training")
    live = Choice(OPTIMIZED, _tuned_live(dataset, seconds))
    dataset.retune(given.knobs)
    found = {GIVEN: (given,), LIVE: (live,)}
    for name, (seeded, trials, draws) in _SEARCHES.items():
        on_step(f"search {name}")
        sessions = (Session(choices, given, bench, open_study(seed=draw), seeded=seeded) for draw in range(draws))
        found[name] = tuple(_tuned_offline(session, trials) for session in sessions)
    grid = [Choice(name, knobs) for name, knobs in _grids(choices, own_knobs)]
    found |= {name: (choice,) for name, choice in _best_of(grid, bench, rounds, on_step).items()}
    return SearchResult(
        case.letter,
        case.name,
        _in_turn(found, bench, final_rounds, lambda turn: on_step(f"round {turn}")),
        {name: first.structure for name, (first, *_) in found.items()},
        {name: _changed(first.knobs, own_knobs[first.structure]) for name, (first, *_) in found.items()},
        len(grid),
    )


def _best_of(
    grid: Sequence[Choice], bench: LocalWorkbench, rounds: int, on_step: Callable[[str], None]
) -> dict[str, Choice]:
    """Try each once, and the few best again, of all and of the same knobs: the best of many is so by chance too."""
    rates = []
    for number, choice in enumerate(grid, 1):
        on_step(f"setting {number} of {len(grid)}")
        rates.append(bench.steps_per_second(choice))
    fastest = sorted(range(len(grid)), key=rates.__getitem__, reverse=True)
    same_knobs = [place for place in fastest if grid[place].structure == OPTIMIZED]
    finalists = {BEST: fastest[:_FINALISTS], BEST_NUMBERS: same_knobs[:_FINALISTS]}
    contenders = {str(place): (grid[place],) for places in finalists.values() for place in places}
    semifinal = _in_turn(contenders, bench, rounds, lambda turn: on_step(f"semifinal {turn}"))
    return {
        name: grid[max(places, key=lambda place: math.fsum(semifinal[str(place)]))]
        for name, places in finalists.items()
    }


def _in_turn(
    contenders: Mapping[str, Sequence[Choice]], bench: LocalWorkbench, turns: int, on_turn: Callable[[str], None]
) -> dict[str, tuple[float, ...]]:
    """Return the steps per second of each, by turn: of several choices, the mean."""
    measured: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(turns):
        on_turn(f"{number + 1} of {turns}")
        # What comes after a like setting has it easier, so nobody may always come after the same.
        for name in random.Random(number).sample(list(contenders), len(contenders)):
            measured[name].append(statistics.fmean(map(bench.steps_per_second, contenders[name])))
    return {name: tuple(each) for name, each in measured.items()}


def _tuned_live(dataset: Any, seconds: float) -> dict[str, int]:
    """Read epoch after epoch as training does, with a tuner that is told of every step."""
    tuner = autopipe.callbacks.PipelineTuner(
        trials=_LIVE_TRIALS, objective="rate", window_seconds=seconds, most_loss=math.inf, verbose=0, seed=0
    )
    end = time.monotonic() + 10 * _LIVE_TRIALS * seconds
    with tuner:
        while not (tuner.search is not None and tuner.search.finished) and time.monotonic() < end:
            for _ in dataset:
                tuner.step()
    return tuner.best


def _tuned_offline(session: Session, trials: int) -> Choice:
    with quiet_optuna():
        session.search(trials, time.monotonic() + 600)
        chosen, _ = session.final(time.monotonic() + 60)
    return chosen


def _grids(choices: Choices, own_knobs: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield all combinations of a few values of each knob of each structure."""
    for name, dataset in choices.datasets.items():
        for knobs in _grid(dataset, choices.spaces[name]):
            yield name, {**own_knobs[name], **knobs}


def _grid(dataset: Any, space: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield the combinations of one structure; knobs of one kind go together, or they were too many."""
    cores = round(Machine.here().cores)
    ladder = [-1, *(cores * factor for factor in (1, 4, 16, 32))]
    kinds: dict[str, list[Knob]] = {}
    for knob in read_knobs(dataset.tree):
        if knob.name in space:
            kinds.setdefault(knob.field if knob.field in _TOGETHER else knob.name, []).append(knob)
    values = {
        kind: ladder if kind == "num_parallel_calls" else _few(space[knobs[0].name].choices)
        for kind, knobs in kinds.items()
    }
    for chosen in itertools.product(*values.values()):
        pairs = list(zip(kinds.values(), chosen, strict=True))
        # Of a kind each takes what it can: an interleave has no more calls than files it reads in turn.
        if any(all(knob.most is not None and value > knob.most for knob in knobs) for knobs, value in pairs):
            continue
        yield {knob.name: min(value, knob.most or value) for knobs, value in pairs for knob in knobs}


def _few(values: Sequence[int]) -> list[int]:
    """Return some of the values, the first and the last among them."""
    if len(values) <= _MOST_PER_KNOB:
        return list(values)
    return [values[round(place * (len(values) - 1) / (_MOST_PER_KNOB - 1))] for place in range(_MOST_PER_KNOB)]


def _changed(knobs: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in knobs.items() if value != own[name]}
