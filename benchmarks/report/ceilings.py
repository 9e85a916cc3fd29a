"""The table of stated ceilings."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.ceilings import CeilingResult
from benchmarks.report.numbers import with_spread

__all__ = ["ceiling_lines"]

_NEAR = 0.15


def ceiling_lines(results: Sequence[CeilingResult]) -> list[str]:
    """Return a table with a row for each pipeline."""
    if not results:
        return []
    lines = [
        "## The best rate that `explain` states",
        "",
        "Each pipeline has one stage that limits it ([planted.py](benchmarks/planted.py)). Elements per second as "
        "stated, and with the best of all combinations of parallel calls and threads; the best were run again, and "
        "the median decided.",
        "",
        "| pipeline | stated | best found | stated ÷ best | settings | the best |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for each in results:
        knobs = ", ".join(f"{name}={value}" for name, value in each.knobs.items()) or "it has none"
        lines.append(
            f"| {each.name} | {each.stated:,.1f} | {with_spread(each.best, ',.1f')} | {each.ratio:.2f} "
            f"| {each.settings} | {knobs} |"
        )
    off = [each.name for each in results if abs(each.ratio - 1) > _NEAR]
    conclusion = f"More than {_NEAR:.0%} off: {', '.join(off)}." if off else f"All are within {_NEAR:.0%}."
    return [*lines, "", conclusion, ""]
