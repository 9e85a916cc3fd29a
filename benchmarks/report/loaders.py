"""The tables of other loaders."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.epochs import LoaderResult

__all__ = ["loader_lines"]


def loader_lines(loaders: Mapping[str, Sequence[LoaderResult]]) -> list[str]:
    """Return a table for each case."""
    return [line for name, compared in loaders.items() for line in _table(name, compared)]


def _table(name: str, compared: Sequence[LoaderResult]) -> list[str]:
    slowest = max(compared, key=lambda each: each.seconds)
    starts = len(slowest.starts)
    lines = [
        f"## Ten epochs of {name}, without a model",
        "",
        "Seconds in all, with what `optimize()` takes to prepare and the first epoch; epochs of all loaders in turn. "
        f"Loaders start in {starts} {'process' if starts == 1 else 'processes'}: medians, and the ratios between which "
        "the starts lie.",
        "",
        "| loader | seconds | times the slowest | to prepare | first epoch | median of the others | |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for each in sorted(compared, key=lambda each: each.seconds):
        start, others = each.start, statistics.median(each.epoch_seconds)
        lines.append(
            f"| {each.name} | {each.seconds:.2f} | {each.times(slowest):.1f} | {start.preparing_seconds:.2f} "
            f"| {start.first_epoch_seconds:.2f} | {others:.2f} | {each.note} |"
        )
    return [*lines, ""]
