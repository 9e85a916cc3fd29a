"""The files that a run writes."""

from __future__ import annotations

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

__all__ = ["markdown", "write"]


def markdown(results: Results) -> str:
    """Return the report: how it was made, and a section for each part that ran."""
    lines = [
        "# Results",
        "",
        *_made_lines(results.made),
        *case_lines(results.cases),
        *loader_lines(results.loaders),
        *training_lines(results.training),
        *overhead_lines(results.overhead),
        *ends_lines(results.ends),
        *memory_lines(results.memory),
        *scaling_lines(results.scaling),
        *ceiling_lines(results.ceilings),
        *search_lines(results.search),
    ]
    return "\n".join(lines)


def _made_lines(made: Mapping[str, Made]) -> list[str]:
    """Return which run measured each part; parts of one run stand together."""
    lines = []
    for each in dict.fromkeys(made.values()):
        parts = ", ".join(name for name, one in made.items() if one == each)
        of_commit = f" at commit {each.commit}" if each.commit else ""
        lines += [f"{parts}: made by `{each.command}` on {each.day}{of_commit}. {each.machine}.", ""]
    return [*lines, "Not edited by hand.", ""]


def write(results: Results, folder: Path, report: Path) -> None:
    """Write ``results.json`` and, of the cases, ``chart.svg`` into ``folder``, and the Markdown report."""
    folder.mkdir(parents=True, exist_ok=True)
    store(results, folder)
    report.write_text(markdown(results))
    if results.cases:
        draw(results.cases, folder / "chart.svg")
