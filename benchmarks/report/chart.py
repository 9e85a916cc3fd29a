"""The chart of all pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import VARIANTS, CaseResult

__all__ = ["draw"]


def draw(results: Sequence[CaseResult], path: Path) -> None:
    """Draw each variant's speed as a ratio to expert's, on a logarithmic axis, with its spread."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same results make the same file.
    mpl.rcParams["svg.hashsalt"] = "autopipe"
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
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(y=0.01)
    axes.set_yticks([row - 0.3 for row in range(len(results))], [f"{e.letter}  {e.name}" for e in reversed(results)])
    axes.set_xlabel("times the speed of the expert's pipeline")
    figure.legend(loc="outside lower center", ncols=len(shown))
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
