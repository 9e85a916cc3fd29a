"""The parts of the benchmark, each with its progress on the console."""

from __future__ import annotations

import gc
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autopipe.telemetry import TelemetryWarning
from benchmarks.cases._base import Case
from benchmarks.ceilings import PIPELINES, CeilingResult, measure_ceiling
from benchmarks.ends import EndsResult, measure_ends
from benchmarks.epochs import EPOCHS, PROCESSES, LoaderResult, compare_loaders, missing_peers
from benchmarks.measuring import VARIANTS, CaseResult, measure
from benchmarks.memory import MemoryResult, measure_memory
from benchmarks.overhead import CALLBACKS, MONITOR, SETTLED, TUNER, OverheadResult, measure_overhead
from benchmarks.peers._base import all_peers
from benchmarks.scaling import ELEMENTS, STAGES, ScalingResult, measure_scaling
from benchmarks.search import (
    BEST,
    BEST_NUMBERS,
    GIVEN,
    LIVE,
    OFFLINE,
    SEARCHED,
    SHORT,
    SHORT_UNSEEDED,
    SearchResult,
    measure_search,
)
from benchmarks.training import TRAINED, TUNED, TrainingResult, is_trained, train_all
from benchmarks.uses import USED, USES, WRITTEN, UsesResult, measure_uses

__all__ = [
    "FULL",
    "PARTS",
    "QUICK",
    "Effort",
    "Part",
    "run_portion",
]

_DIAGNOSIS_SECONDS = 6.0
_ENDS = 20
_SCALED = ("flowers_augmented", "fused_map", "parse_example")


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: turns of each variant.
        instances: how often what is as fast as the reference, or nearly so, is made and measured.
        turn_seconds: how long a turn of a case lasts, or an epoch if that is longer.
        least_seconds: how long a turn lasts in other parts.
        tuning_seconds: time for the tuner, each time it works.
        training_rounds: turns of each variant in training.
        training_tuning_seconds: time for the tuner in training.
        rotations: as many ``fit`` as there are callbacks, of each that may cost something.
        fit_seconds: how long each ``fit`` lasts whose callbacks may cost something: a search takes part of it.
        processes: for each variant whose memory is measured.
        repeats: tries of ``optimize()`` on each length of pipeline, and turns of each number of cores.
        stages: lengths of pipelines.
        elements: numbers of elements.
        setting_seconds: how long each setting of the knobs runs.
        read_seconds: how long iterators are read before they end.
    """

    rounds: int
    instances: int
    turn_seconds: float
    least_seconds: float
    tuning_seconds: float
    training_rounds: int
    training_tuning_seconds: float
    rotations: int
    fit_seconds: float
    processes: int
    repeats: int
    stages: Sequence[int]
    elements: Sequence[int]
    setting_seconds: float
    read_seconds: Sequence[float]


QUICK = Effort(5, 1, 0.2, 0.4, 0.0, 3, 5.0, 1, 2.0, 1, 1, STAGES[:3], ELEMENTS[:3], 0.25, (0.3, 1.0))
FULL = Effort(7, 9, 0.4, 1.0, 8.0, 7, 60.0, 1, 20.0, 1, 3, STAGES, ELEMENTS, 0.6, (0.3, 1.0, 3.0))


def _run_case(case: Case, effort: Effort, console: Console) -> list[CaseResult]:
    """Measure a pipeline."""
    with _folder() as folder, _bar(console, case, None) as advance:
        result = measure(
            case,
            folder,
            rounds=effort.rounds,
            instances=effort.instances,
            least_seconds=effort.turn_seconds,
            tuning_seconds=effort.tuning_seconds,
            on_epoch=advance,
        )
    rates = "  ".join(f"{name} {each.rate:,.0f}" for name, each in result.variants.items())
    ratio = result.ratio("autopipe(naive)")
    console.print(f"{case.letter} {case.name:24} {ratio} x expert   {rates} {case.unit}/s", soft_wrap=True)
    return [result]


def _run_loaders(case: Case, effort: Effort, console: Console) -> dict[str, list[LoaderResult]]:
    """Compare with other loaders."""
    with _folder() as folder, console.status(case.name) as status:
        results = compare_loaders(
            case,
            folder,
            processes=PROCESSES,
            epochs=EPOCHS,
            on_run=lambda loader: status.update(f"{loader}, {EPOCHS} epochs of {case.name}"),
        )
    return {case.name: results}


def _is_compared(case: Case) -> bool:
    """Return whether other loaders do the same job."""
    return case.letter in {peer.letter for peer in all_peers()}


def _run_training(case: Case, effort: Effort, console: Console) -> list[TrainingResult]:
    """Train a model from a pipeline for which there is one."""
    with _folder() as folder, _bar(console, case, len(TRAINED) * (effort.training_rounds + 1)) as advance:
        result = train_all(
            case,
            folder,
            rounds=effort.training_rounds,
            least_seconds=effort.least_seconds,
            tuning_seconds=effort.training_tuning_seconds,
            on_epoch=advance,
        )
    ours, tuned = (result.ratio(variant) for variant in ("autopipe(naive)", TUNED))
    console.print(f"training {case.letter} {case.name:24} {ours} x expert, tuned {tuned}", soft_wrap=True)
    return [result]


def _run_uses(case: Case, effort: Effort, console: Console) -> list[UsesResult]:
    """Use iterators of a pipeline in several ways."""
    turns = len(WRITTEN) * len(USES) * 2 * (effort.rounds + 1)
    with _folder() as folder, _bar(console, case, turns) as advance:
        result = measure_uses(case, folder, rounds=effort.rounds, on_turn=advance)
    ratios = "  ".join(f"{use} {result.later[use][given]} x {given}" for use in USES for given in WRITTEN)
    console.print(f"uses {case.letter} {case.name:24} {ratios}", soft_wrap=True)
    return [result]


def _is_used(case: Case) -> bool:
    return case.name in USED


def _run_overhead(case: Case, effort: Effort, console: Console) -> list[OverheadResult]:
    """Measure what the callbacks cost where there is nothing to gain."""
    with _folder() as folder, _bar(console, case, 2 * (effort.rotations * len(CALLBACKS) + 1)) as advance:
        results = measure_overhead(
            case, folder, rotations=effort.rotations, seconds=effort.fit_seconds, on_round=advance
        )
    for each in results:
        ratios = "  ".join(f"{name} {each.ratio(name):.3f}" for name in (MONITOR, SETTLED, TUNER))
        console.print(f"overhead {case.letter} {case.name:24} {each.pipeline}: {ratios}", soft_wrap=True)
    return results


def _run_ends(cases: Sequence[Case], effort: Effort, console: Console) -> list[EndsResult]:
    """Measure how long is waited for the end of an iterator, after several times of reading."""
    results = []
    for seconds in effort.read_seconds:
        with console.status(f"ends after {seconds:g} s") as status:
            result = measure_ends(seconds, _ENDS, on_turn=status.update)
        longest = "  ".join(f"{name} {max(waits):.3f} s" for name, waits in result.waits.items())
        console.print(f"ends after {seconds:g} s, longest: {longest}", soft_wrap=True)
        results.append(result)
    return results


def _run_memory(case: Case, effort: Effort, console: Console) -> list[MemoryResult]:
    """Measure the peak memory of a pipeline."""
    with _folder() as folder, _bar(console, case, len(VARIANTS) * effort.processes) as advance:
        result = measure_memory(case, folder, repeats=effort.processes, on_run=advance)
    peaks = "  ".join(f"{name} {each.reading / 1e6:,.0f}" for name, each in result.variants.items())
    console.print(f"memory {case.letter} {case.name:24} {peaks} MB", soft_wrap=True)
    return [result]


def _run_scaling(cases: Sequence[Case], effort: Effort, console: Console) -> ScalingResult:
    """Measure how costs grow, and throughput with cores."""
    with console.status("scaling") as status:
        return measure_scaling(
            [case for case in cases if case.name in _SCALED],
            repeats=effort.repeats,
            least_seconds=effort.least_seconds,
            tuning_seconds=effort.tuning_seconds,
            stages=effort.stages,
            elements=effort.elements,
            on_step=status.update,
        )


def _run_ceilings(cases: Sequence[Case], effort: Effort, console: Console) -> list[CeilingResult]:
    """Compare the best rate that ``explain`` states with the best of all settings."""
    results = []
    for name in PIPELINES:
        with _counter(console, name) as advance:
            result = measure_ceiling(
                name,
                diagnosis_seconds=_DIAGNOSIS_SECONDS,
                seconds=effort.setting_seconds,
                repeats=effort.rounds,
                on_setting=advance,
            )
        console.print(f"ceiling {name:24} {result.ratio:.2f} x the best of {result.settings} settings")
        results.append(result)
    return results


def _run_search(case: Case, effort: Effort, console: Console) -> list[SearchResult]:
    """Compare what the searches find with the best of all settings."""
    with _folder() as folder, console.status(case.name) as status:
        result = measure_search(
            case,
            folder,
            seconds=effort.setting_seconds,
            rounds=2 * effort.rounds,
            final_rounds=6 * effort.rounds,
            on_step=status.update,
        )
    live, offline = result.ratio(LIVE, BEST_NUMBERS), result.ratio(OFFLINE, BEST)
    gain, seeding = result.ratio(LIVE, GIVEN), result.ratio(SHORT, SHORT_UNSEEDED)
    console.print(
        f"search {case.letter} {case.name:24} in training {live} of the best of the same knobs, "
        f"{gain} x AUTOTUNE; offline {offline} of the best; short {seeding} x the same without seeds"
    )
    return [result]


def _is_searched(case: Case) -> bool:
    return case.name in SEARCHED


def _is_any(case: Case) -> bool:
    return True


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        run: measures one case, or all at once.
        takes: whether a case is in it; ``None`` where it does not go case by case.
        notices: lines that are to be read before it.
    """

    run: Callable[[Any, Effort, Console], Any]
    takes: Callable[[Case], bool] | None = None
    notices: Callable[[], Sequence[str]] = tuple

    def portions(self, cases: Sequence[Case]) -> list[Any]:
        """Return what it measures in a process of its own each."""
        return [cases] if self.takes is None else [case for case in cases if self.takes(case)]


PARTS: Mapping[str, Part] = {
    "cases": Part(_run_case, _is_any),
    "loaders": Part(_run_loaders, _is_compared, missing_peers),
    "training": Part(_run_training, is_trained),
    "uses": Part(_run_uses, _is_used),
    "overhead": Part(_run_overhead, is_trained),
    "ends": Part(_run_ends),
    "memory": Part(_run_memory, _is_any),
    "scaling": Part(_run_scaling),
    "ceilings": Part(_run_ceilings),
    "search": Part(_run_search, _is_searched),
}


def run_portion(name: str, portion: Any, effort: Effort) -> Any:
    """Return what one of the parts measures of one of its portions."""
    warnings.simplefilter("ignore", TelemetryWarning)
    return PARTS[name].run(portion, effort, Console())


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
    gc.collect()


@contextmanager
def _bar(console: Console, case: Case, total: int | None) -> Iterator[Any]:
    with _progress(console, f"{case.letter} {case.name}") as bar:
        task = bar.add_task("", total=total)
        yield lambda variant: bar.advance(task)


@contextmanager
def _counter(console: Console, name: str) -> Iterator[Any]:
    """Show a bar whose end is known only at the first step."""
    with _progress(console, name) as bar:
        task = bar.add_task("", total=None)
        yield lambda total: bar.update(task, total=total, advance=1)


def _progress(console: Console, name: str) -> Progress:
    columns = (TextColumn(f"{name:26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)
