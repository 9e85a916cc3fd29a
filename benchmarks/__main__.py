"""``python -m benchmarks``: measures and writes the results."""

from __future__ import annotations

import compileall
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from autopipe.quiet import load_tensorflow

load_tensorflow()

from benchmarks import parts, report  # noqa: E402  TensorFlow is loaded without its notices first
from benchmarks.alone import run_alone  # noqa: E402
from benchmarks.cases._base import Case, all_cases  # noqa: E402

ROOT = Path(__file__).parents[1]


def main(
    *,
    quick: Annotated[bool, typer.Option(help="Under 5 minutes: fewer rounds, no tuning, some cases.")] = False,
    only: Annotated[str, typer.Option(help="Only cases whose name or letter is one of these, by commas.")] = "",
    part: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Of {', '.join(parts.PARTS)}: what to run, by commas. By default all; cases if quick or only."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where results.json and chart.svg go.")] = ROOT / "build/benchmarks",
    keep: Annotated[
        bool,
        typer.Option(
            help="Keep what other parts, and other cases than --only, have measured before, as --output has it."
        ),
    ] = False,
    write_report: Annotated[Path | None, typer.Option("--report", help="Where the Markdown report goes.")] = None,
) -> None:
    """Measure each pipeline as a newcomer, an expert and a master write it, and with autopipe on the first two."""
    named = [name for each in part or () for name in each.split(",") if name]
    wanted = {name for name in only.split(",") if name}
    chosen = _chosen_parts(named, few=quick or bool(wanted))
    _refuse_unknown(wanted)
    cases = [case for case in all_cases() if _is_wanted(case, wanted, quick)]
    effort = parts.QUICK if quick else parts.FULL
    console = Console()
    results = report.read(output) if keep else report.Results()
    if keep and not results.made:
        console.print(f"No results were found in {output}: there is nothing to keep.", soft_wrap=True)
    command = _command(quick, only, named)
    _compile_packages()
    for name in (name for name in parts.PARTS if name in chosen):
        for line in parts.PARTS[name].notices():
            console.print(line, soft_wrap=True)
        before = results
        for measured, cases_so_far, is_all in _measured(name, cases, effort):
            # Written after each case: all of them take hours, and whoever ends it early keeps what there is.
            of = cases_so_far if keep and (wanted or not is_all) else ""
            results = before.with_part(name, measured, report.Made.now(command), only=of)
            report.write(results, output, write_report or output / "RESULTS.md")
    console.print(f"The report and the results are in {output}.", soft_wrap=True)
    if results.cases:
        console.print(report.summary(results.cases), soft_wrap=True, highlight=False)


def _measured(name: str, cases: Sequence[Case], effort: parts.Effort) -> Iterator[tuple[Any, str, bool]]:
    """Yield what a part has measured, after each of its portions, the cases this is of, and whether it is all."""
    measured = getattr(report.Results(), name)
    portions = parts.PARTS[name].portions(cases)
    for number, portion in enumerate(portions, 1):
        measured = report.joined(measured, run_alone(parts.run_portion, name, portion, effort))
        named = (case.name for each in portions[:number] for case in (each if isinstance(each, Sequence) else [each]))
        yield measured, ",".join(named), not portions[number:]
    if not portions:
        yield measured, "", True


def _compile_packages() -> None:
    """Have what `optimize()` imports ready, as pip leaves whatever it installs, and the peers with it."""
    for package in ("autopipe", "callbacks", "search_spaces"):
        compileall.compile_dir(ROOT / package, quiet=1)


def _chosen_parts(named: list[str], few: bool) -> tuple[str, ...]:
    """Return the parts to run: those that were named, or the usual ones."""
    unknown = [name for name in named if name not in parts.PARTS]
    if unknown:
        raise typer.BadParameter(f"A part must be one of {', '.join(parts.PARTS)}, but got {', '.join(unknown)}.")
    return tuple(named) or (("cases",) if few else parts.PARTS)


def _refuse_unknown(wanted: set[str]) -> None:
    known = {name for case in all_cases() for name in (case.letter, case.name)}
    if wanted - known:
        raise typer.BadParameter(f"A case must be one of {', '.join(sorted(known))}, but got {min(wanted - known)}.")


def _is_wanted(case: Case, wanted: set[str], quick: bool) -> bool:
    """Return whether a case was named; of all, whether it is among the quick ones where those are enough."""
    return bool({case.name, case.letter} & wanted) if wanted else case.quick or not quick


def _command(quick: bool, only: str, named: list[str]) -> str:
    """Return the command that makes the same again."""
    if not only and not named:
        return "make bench-quick" if quick else "make bench"
    options = ["--quick"] * quick + ["--only", only] * bool(only) + ["--part", ",".join(named)] * bool(named)
    return " ".join(["python -m benchmarks", *options])


if __name__ == "__main__":
    typer.run(main)
