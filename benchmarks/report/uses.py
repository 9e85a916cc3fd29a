"""The table of pipelines by how their iterators are used."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.uses import USES, WRITTEN, UsesResult

__all__ = ["uses_lines"]


def uses_lines(results: Sequence[UsesResult]) -> list[str]:
    """Return a table with a row for each pipeline that was given, and two columns for each use."""
    if not results:
        return []
    titles = "; ".join(f"*{name}*: {use.title}" for name, use in USES.items())
    columns = [f"{name}, {when}" for name in USES for when in ("first", "later")]
    lines = [
        "## By how iterators are used",
        "",
        "How many times as fast the optimized pipeline is as the one it was made of, where each iterator is a new one, "
        f"and let go after it. {titles}. *First* is the first of them, in which caches fill.",
        "",
        f"| | pipeline | of | {' | '.join(columns)} |",
        "|---|---|---|" + "---:|" * len(columns),
    ]
    for each in results:
        for given in WRITTEN:
            cells = [f"{each.first[use][given]:.2f} | {each.later[use][given]:.2f}" for use in USES]
            lines.append(f"| {each.letter} | {each.name} | {given} | {' | '.join(cells)} |")
    return [*lines, ""]
