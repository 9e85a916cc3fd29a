"""``python -m benchmarks.rules``: measures what each rule buys by itself."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autopipe.quiet import load_tensorflow

load_tensorflow()

from autopipe.planning.memory.machine import Machine  # noqa: E402  TensorFlow is loaded quietly first
from benchmarks.rules._base import RuleResult, all_rule_cases, measure_rule  # noqa: E402


def main(
    only: Annotated[str, typer.Option(help="Only these rules, by commas; in the table the others stay.")] = "",
    rounds: Annotated[int, typer.Option(help="How often each side takes its turn.")] = 11,
    report: Annotated[Path | None, typer.Option(help="Where a Markdown table goes.")] = None,
) -> None:
    """Measure a pipeline without and with each rule, in turn; the ratio is how many times better it is."""
    console = Console()
    table = Table("rule", "its case", "buys", "times better")
    wanted = {name for name in only.split(",") if name}
    cases = [case for case in all_rule_cases() if not wanted or case.rule in wanted]
    results = []
    for case in cases:
        with console.status(f"{case.rule}: {case.title}"):
            results.append(measure_rule(case, rounds))
        table.add_row(case.rule, case.title, case.buys, str(results[-1]))
    console.print(table)
    if report:
        rows = (_rows_of(report) if wanted else {}) | {each.case.rule: _row(each) for each in results}
        report.write_text(_markdown([rows[name] for name in sorted(rows)]))


def _rows_of(report: Path) -> dict[str, str]:
    """Return the rows of a table that was made before, by their rules."""
    lines = report.read_text().splitlines() if report.exists() else []
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def _row(result: RuleResult) -> str:
    return f"| `{result.case.rule}` | {result.case.title} | {result.case.buys} | {result} |"


def _markdown(rows: list[str]) -> str:
    machine = Machine.here()
    lines = [
        "# What each rule buys",
        "",
        f"Made by `make bench-rules`, last on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, on {machine.cores:g} "
        f"cores, with TensorFlow {version('tensorflow')}; not edited by hand. Each rule runs alone, on a case of its "
        "own; the ratio is how many times better that makes it: the median of turns taken side by side, and extremes.",
        "",
        "| rule | its case | buys | times better |",
        "|---|---|---|---:|",
    ]
    return "\n".join([*lines, *rows, ""])


if __name__ == "__main__":
    typer.run(main)
