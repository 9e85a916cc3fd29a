"""How a pipeline's throughput grows with cores: measured on those there are, and in simulation beyond.

``python -m benchmarks.cores --case NAME --variant V --folder DIR`` measures one; it prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from autopipe.quiet import load_tensorflow
from benchmarks.cases._base import Case, case_named
from benchmarks.children import load_data, run_child
from benchmarks.measuring import make_variant, rate_of, reordered, units_of
from benchmarks.serial import serial_share, stages_of

__all__ = ["SIMULATED", "CoreScaling", "measure_cores", "run_on_cores"]

SIMULATED = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class CoreScaling:
    """One variant of one case, by the number of cores.

    Attributes:
        letter: the letter of the case.
        name: its name.
        variant: who wrote it.
        unit: what is counted.
        rates: units per second in each round, for each number of cores, ascending.
        cpu_seconds: CPU time of the process for one unit, on one core.
        serial_seconds: the part of it that no number of cores shortens.
    """

    letter: str
    name: str
    variant: str
    unit: str
    rates: tuple[tuple[int, tuple[float, ...]], ...]
    cpu_seconds: float
    serial_seconds: float

    def predicted(self, cores: int) -> float:
        """Return the units per second that so many cores can do at the most."""
        return min(cores / self.cpu_seconds, 1.0 / self.serial_seconds)

    def measured(self, cores: int) -> tuple[float, ...]:
        """Return the units per second in each round on so many cores; none where it was not measured there."""
        return dict(self.rates).get(cores, ())


def measure_cores(case: Case, variant: str, folder: Path, *, rounds: int, least_seconds: float) -> CoreScaling:
    """Measure a variant in a process of its own.

    Args:
        case: one of ``all_cases()``: the process finds it by its name.
        variant: who wrote it.
        folder: where :func:`~benchmarks.children.save_data` has put its data.
        rounds: how often each number of cores takes its turn.
        least_seconds: how long a turn lasts.
    """
    figures = run_child(
        "benchmarks.cores", case=case.name, variant=variant, folder=folder, rounds=rounds, seconds=least_seconds
    )
    rates = tuple((cores, tuple(each)) for cores, each in figures.pop("rates"))
    return CoreScaling(**figures, rates=rates)


def run_on_cores(case: Case, variant: str, data: Any, *, rounds: int, least_seconds: float) -> CoreScaling:
    """Measure a variant in this process, which must be allowed to choose its cores; it has all of them again after."""
    dataset = make_variant(case, variant, data, tuning_seconds=0.0)
    rate_of(dataset)
    allowed = sorted(os.sched_getaffinity(0))
    counts = tuple(cores for cores in SIMULATED if cores <= len(allowed))
    rates: dict[int, list[float]] = {cores: [] for cores in counts}
    cpu_seconds: list[float] = []
    try:
        for number in range(rounds):
            for cores in reordered(counts, number):
                _use(allowed[:cores])
                spent = time.process_time()
                units, seconds = units_of(dataset, least_seconds)
                rates[cores].append(units / seconds)
                if cores == 1:
                    cpu_seconds.append((time.process_time() - spent) / units)
    finally:
        _use(allowed)
    return CoreScaling(
        case.letter,
        case.name,
        variant,
        case.unit,
        tuple((cores, tuple(each)) for cores, each in rates.items()),
        statistics.median(cpu_seconds),
        statistics.median(cpu_seconds) * serial_share(stages_of(dataset)),
    )


def _use(cores: list[int]) -> None:
    """Let every thread run on these cores only; new threads take it over from the thread that starts them."""
    # Twice, for the threads that others have started meanwhile.
    for _ in range(2):
        for thread in psutil.Process().threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread.id, cores)


def main(
    case: Annotated[str, typer.Option(help="The name of a case.")],
    variant: Annotated[str, typer.Option(help="Who wrote it: naive, expert, best, autopipe(naive), ...")],
    folder: Annotated[Path, typer.Option(help="Where the data of the case has been put.")],
    rounds: Annotated[int, typer.Option(help="How often each number of cores takes its turn.")],
    seconds: Annotated[float, typer.Option(help="How long a turn lasts.")],
) -> None:
    """Print how one variant of a case scales with cores, as JSON."""
    load_tensorflow()
    scaling = run_on_cores(case_named(case), variant, load_data(folder), rounds=rounds, least_seconds=seconds)
    print(json.dumps(asdict(scaling)))


if __name__ == "__main__":
    typer.run(main)
