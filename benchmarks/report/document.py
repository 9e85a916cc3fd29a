"""The files that a run writes."""

from __future__ import annotations

import datetime
import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from autopipe.planning.machine import Machine
from benchmarks.report.cases import case_lines
from benchmarks.report.ceilings import ceiling_lines
from benchmarks.report.chart import draw
from benchmarks.report.ends import ends_lines
from benchmarks.report.loaders import loader_lines
from benchmarks.report.memory import memory_lines
from benchmarks.report.overhead import overhead_lines
from benchmarks.report.results import Results
from benchmarks.report.scaling import scaling_lines
from benchmarks.report.search import search_lines
from benchmarks.report.training import training_lines

__all__ = ["markdown", "write"]

_PACKAGES = ("tensorflow", "keras", "numpy", "keras-autopipe")


def markdown(results: Results, command: str) -> str:
    """Return the report: the machine, and a section for each part that ran."""
    machine = Machine.here()
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    lines = [
        "# Results",
        "",
        f"Made by `{command}` on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}; not edited by hand.",
        "",
        f"{machine.cores:g} cores, {machine.memory_bytes / 2**30:.0f} GiB, {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}.",
        "",
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


def write(results: Results, folder: Path, report: Path, command: str) -> None:
    """Write ``results.json`` and, of the cases, ``chart.svg`` into ``folder``, and the Markdown report."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(asdict(results), indent=1) + "\n")
    report.write_text(markdown(results, command))
    if results.cases:
        draw(results.cases, folder / "chart.svg")
