"""The table of what searches find."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.search import BEST, GIVEN, LIVE, OFFLINE, UNSEEDED, SearchResult

__all__ = ["search_lines"]


def search_lines(results: Sequence[SearchResult]) -> list[str]:
    """Return a table with a row for each pipeline."""
    if not results:
        return []
    lines = [
        "## What the searches find",
        "",
        "Steps per second with the numbers that each found, in turn: the median of the ratios within a round, and "
        f"between which figures the true one lies 19 times in 20. *{LIVE}*: `PipelineTuner`, 20 trials at the most; "
        f"*{OFFLINE}*: as `autopipe tune`, 40 trials; *{UNSEEDED}*: the same without being told what to try first.",
        "",
        f"| | pipeline | {LIVE} ÷ {GIVEN} | {LIVE} ÷ best | {OFFLINE} ÷ {GIVEN} | {OFFLINE} ÷ best | {UNSEEDED} ÷ best "
        f"| grid | {LIVE} | {BEST} |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for each in results:
        ratios = [
            each.ratio(LIVE, GIVEN),
            each.ratio(LIVE, BEST),
            each.ratio(OFFLINE, GIVEN),
            each.ratio(OFFLINE, BEST),
            each.ratio(UNSEEDED, BEST),
        ]
        lines.append(
            f"| {each.letter} | {each.name} | {' | '.join(map(str, ratios))} | {each.settings} "
            f"| {_knobs(each, LIVE)} | {_knobs(each, BEST)} |"
        )
    return [*lines, ""]


def _knobs(result: SearchResult, chooser: str) -> str:
    return ", ".join(f"{name}={value}" for name, value in result.knobs[chooser].items()) or "as given"
