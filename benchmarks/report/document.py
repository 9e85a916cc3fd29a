"""The files that a run writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report.cases import case_lines
from benchmarks.report.ceilings import ceiling_lines
from benchmarks.report.chart import draw
from benchmarks.report.ends import ends_lines
from benchmarks.report.loaders import loader_lines
from benchmarks.report.memory import memory_lines
from benchmarks.report.overhead import overhead_lines
from benchmarks.report.results import Made, Results, store
from benchmarks.report.scaling import scaling_lines
from benchmarks.report.search import search_lines
from benchmarks.report.training import training_lines
from benchmarks.report.uses import uses_lines

__all__ = ["markdown", "write"]


def markdown(results: Results, chart: str = "") -> str:
    """Return the report: a section for each part that ran, and how each was measured.

    Args:
        results: of the parts.
        chart: where the chart of the cases is, as seen from the report; empty where there is none.
    """
    lines = [
        "# Results",
        "",
        *_machine_lines(results.made),
        *([f"![Times the speed of the expert's pipeline]({chart})", ""] if chart else []),
        *case_lines(results.cases),
        *loader_lines(results.loaders),
        *training_lines(results.training),
        *uses_lines(results.uses),
        *overhead_lines(results.overhead),
        *ends_lines(results.ends),
        *memory_lines(results.memory),
        *scaling_lines(results.scaling),
        *ceiling_lines(results.ceilings),
        *search_lines(results.search),
        *_made_lines(results.made),
    ]
    return "\n".join(lines)


def _machine_lines(made: Mapping[str, Made]) -> list[str]:
    machines = [f"{each}." for each in dict.fromkeys(each.machine for each in made.values())]
    said_at_the_end = ["Which command measured what, when and where, [stands at the end](#how-this-was-measured)."]
    return [*(machines if len(machines) == 1 else said_at_the_end), "Not edited by hand.", ""]


def _made_lines(made: Mapping[str, Made]) -> list[str]:
    """Return which run measured each part; parts of one run stand together."""
    if not made:
        return []
    machines = list(dict.fromkeys(each.machine for each in made.values()))
    lines = ["## How this was measured", "", "| what | day | commit | command | machine |", "|---|---|---|---|---:|"]
    for each in sorted(dict.fromkeys(made.values()), key=lambda each: each.day):
        parts = "; ".join(name.replace(",", ", ") for name, one in made.items() if one == each)
        number = machines.index(each.machine) + 1
        lines.append(f"| {parts} | {each.day} | {each.commit} | `{each.command}` | {number} |")
    return [*lines, "", *(f"{number}. {machine}." for number, machine in enumerate(machines, 1)), ""]


def write(results: Results, folder: Path, report: Path) -> None:
    """Write ``results.json`` and, of the cases, ``chart.svg`` into ``folder``, and the Markdown report."""
    folder.mkdir(parents=True, exist_ok=True)
    store(results, folder)
    chart = folder / "chart.svg"
    if results.cases:
        draw(results.cases, chart)
    seen = Path(os.path.relpath(chart, report.parent)).as_posix() if results.cases else ""
    report.write_text(markdown(results, seen))
