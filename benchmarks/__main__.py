"""``python -m benchmarks``: measures every case and writes the results."""

from __future__ import annotations

import gc
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autopipe.quiet import load_tensorflow

load_tensorflow()

from autopipe.telemetry import TelemetryWarning  # noqa: E402  TensorFlow is loaded without its notices first
from benchmarks import report  # noqa: E402
from benchmarks.cases._base import Case, all_cases  # noqa: E402
from benchmarks.epochs import EPOCHS, LoaderResult, compare_loaders, missing_peers  # noqa: E402
from benchmarks.measuring import VARIANTS, CaseResult, measure  # noqa: E402

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class _Effort:
    rounds: int
    least_seconds: float
    tuning_seconds: float


_QUICK = _Effort(rounds=5, least_seconds=0.4, tuning_seconds=0.0)
_FULL = _Effort(rounds=7, least_seconds=1.0, tuning_seconds=15.0)


def main(
    quick: Annotated[bool, typer.Option(help="Under 5 minutes: fewer rounds, no tuning, some cases.")] = False,
    only: Annotated[str, typer.Option(help="Only cases whose name or letter is one of these, by commas.")] = "",
    output: Annotated[Path, typer.Option(help="Where results.json and chart.svg go.")] = ROOT / "build/benchmarks",
    write_report: Annotated[Path | None, typer.Option("--report", help="Where the Markdown report goes.")] = None,
) -> None:
    """Measure each pipeline as a newcomer, an expert and a master write it, and with autopipe on the first two."""
    wanted = {name for name in only.split(",") if name}
    cases = [
        case for case in all_cases() if (case.quick or not quick) and (not wanted or {case.name, case.letter} & wanted)
    ]
    console = Console()
    warnings.simplefilter("ignore", TelemetryWarning)
    results = [_run(case, _QUICK if quick else _FULL, console) for case in cases]
    loaders = {} if quick or wanted else _loaders(cases, console)
    command = "make bench-quick" if quick else "make bench"
    report.write(results, loaders, output, write_report or output / "RESULTS.md", command)
    console.print(f"The report, results.json and chart.svg are in {output}.", soft_wrap=True)
    console.print(report.summary(results), soft_wrap=True, highlight=False)


def _run(case: Case, effort: _Effort, console: Console) -> CaseResult:
    columns = (TextColumn(f"{case.letter} {case.name:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(VARIANTS) * (effort.rounds + 1))
        result = measure(
            case,
            Path(folder),
            rounds=effort.rounds,
            least_seconds=effort.least_seconds,
            tuning_seconds=effort.tuning_seconds,
            on_epoch=lambda variant: bar.advance(task),
        )
    gc.collect()
    rates = "  ".join(f"{name} {each.rate:,.0f}" for name, each in result.variants.items())
    ratio = result.ratio("autopipe(naive)")
    console.print(f"{case.letter} {case.name:24} {ratio} x expert   {rates} {case.unit}/s", soft_wrap=True)
    return result


def _loaders(cases: list[Case], console: Console) -> dict[str, list[LoaderResult]]:
    """Compare with other loaders on the flower job, without and with augmentation."""
    for line in missing_peers():
        console.print(line, soft_wrap=True)
    compared = {}
    for case in cases:
        if case.letter != "a":
            continue
        with tempfile.TemporaryDirectory() as folder, console.status(f"{EPOCHS} epochs of {case.name}") as status:
            compared[case.name] = compare_loaders(
                case, Path(folder), augment="augmented" in case.name, on_epoch=status.update
            )
    return compared


if __name__ == "__main__":
    typer.run(main)
