"""What is made of the measurements: the summary line, JSON, a Markdown table and a chart."""

from __future__ import annotations

import datetime
import json
import math
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from autopipe.planning.machine import Machine
from benchmarks.epochs import LoaderResult
from benchmarks.measuring import VARIANTS, CaseResult

__all__ = ["markdown", "summary", "write"]

_PACKAGES = ("tensorflow", "keras", "numpy", "keras-autopipe")


def summary(results: Sequence[CaseResult]) -> str:
    """Return the last line that is printed."""
    ours = {each.name: each.ratio("autopipe(naive)").median for each in results}
    to_best = [each.ratio("autopipe(naive)", "best").median for each in results]
    on_expert = {each.name: each.ratio("autopipe(expert)").median for each in results}
    worst, worst_expert = min(ours, key=ours.__getitem__), min(on_expert, key=on_expert.__getitem__)
    return (
        f"summary: autopipe(naive)/expert geomean {_geomean(list(ours.values())):.2f} "
        f"worst {ours[worst]:.2f} ({worst}), "
        f"autopipe(naive)/best geomean {_geomean(to_best):.2f}, "
        f"autopipe(expert)/expert worst {on_expert[worst_expert]:.2f} ({worst_expert})"
    )


def markdown(results: Sequence[CaseResult], loaders: Mapping[str, Sequence[LoaderResult]], command: str) -> str:
    """Return the report: the machine, the rates, the ratios with their spread, and the summary."""
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
        "Units per second after the first epoch (medians), and ratios to *expert* within each round: the median, "
        "with the lowest and highest.",
        "",
        "| | pipeline | unit | naive | expert | best by hand | autopipe(naive) | ÷ expert | ÷ best "
        "| autopipe(expert) ÷ expert | rules on naive |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for each in results:
        rates = [f"{each.variants[variant].rate:,.0f}" for variant in VARIANTS[:4]]
        lines.append(
            f"| {each.letter} | {each.name} | {each.unit} | {' | '.join(rates)} "
            f"| {each.ratio('autopipe(naive)')} | {each.ratio('autopipe(naive)', 'best')} "
            f"| {each.ratio('autopipe(expert)')} | {', '.join(each.variants['autopipe(naive)'].rules) or 'none'} |"
        )
    lines += ["", f"`{summary(results)}`", ""]
    for name, compared in loaders.items():
        lines += _loader_table(name, compared)
    return "\n".join(lines)


def _loader_table(name: str, compared: Sequence[LoaderResult]) -> list[str]:
    slowest = max(each.seconds for each in compared)
    lines = [
        f"## Ten epochs of {name}, without a model",
        "",
        "Seconds in all, with what `optimize()` takes to prepare and the first epoch; epochs of all loaders in turn.",
        "",
        "| loader | seconds | times the slowest | first epoch | median of the others | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for each in sorted(compared, key=lambda each: each.seconds):
        first, *others = each.epoch_seconds
        lines.append(
            f"| {each.name} | {each.seconds:.2f} | {slowest / each.seconds:.1f} | {first:.2f} "
            f"| {statistics.median(others):.2f} | {each.note} |"
        )
    return [*lines, ""]


def write(
    results: Sequence[CaseResult],
    loaders: Mapping[str, Sequence[LoaderResult]],
    folder: Path,
    report: Path,
    command: str,
) -> None:
    """Write ``results.json`` and ``chart.svg`` into ``folder``, and the Markdown report."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "cases": [asdict(each) for each in results],
        "loaders": {name: [asdict(each) for each in compared] for name, compared in loaders.items()},
    }
    (folder / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    report.write_text(markdown(results, loaders, command))
    _draw(results, folder / "chart.svg")


def _draw(results: Sequence[CaseResult], path: Path) -> None:
    """Draw each variant's speed as a ratio to expert's, on a logarithmic axis, with its spread."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    shown = [variant for variant in VARIANTS if variant != "expert"]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.55 * len(results)), layout="constrained")
    height = 0.8 / len(shown)
    for row, each in enumerate(reversed(results)):
        for column, variant in enumerate(shown):
            ratio = each.ratio(variant)
            spread = [[ratio.median - ratio.lowest], [ratio.highest - ratio.median]]
            axes.barh(
                row - column * height,
                ratio.median - 1,
                left=1,
                height=height,
                xerr=spread,
                color=f"C{column}",
                ecolor="0.4",
                label=variant if row == 0 else None,
            )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks([row - 0.3 for row in range(len(results))], [f"{e.letter}  {e.name}" for e in reversed(results)])
    axes.set_xlabel("times the speed of the expert's pipeline")
    figure.legend(loc="outside lower center", ncols=len(shown))
    figure.savefig(path)
    pyplot.close(figure)


def _geomean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
