"""The tables of other loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.epochs import PLANNER, LoaderResult

__all__ = ["loader_lines"]


def loader_lines(loaders: Mapping[str, Sequence[LoaderResult]]) -> list[str]:
    """Return a table for each case."""
    return [line for name, compared in loaders.items() for line in _table(name, compared)]


def _table(name: str, compared: Sequence[LoaderResult]) -> list[str]:
    slowest = max(compared, key=lambda each: each.seconds)
    processes = len(slowest.runs)
    lines = [
        f"## Ten epochs of {name}, without a model",
        "",
        "Seconds in all, with what it takes to prepare: all of `optimize()`, for autopipe. Each loader ran in "
        f"{processes} {'process' if processes == 1 else 'processes'} of its own, one of each in turn: medians, and the "
        "ratios between which the runs lie.",
        "",
        "| loader | seconds | times the slowest | to prepare | first epoch | median of the others | |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for each in sorted(compared, key=lambda each: each.seconds):
        lines.append(
            f"| {each.name} | {each.seconds:.2f} | {each.times(slowest):.1f} | {each.preparing:.2f} "
            f"| {each.first_epoch:.2f} | {each.later_epoch:.2f} | {each.note} |"
        )
    return [*lines, "", *_limits(compared, slowest)]


def _limits(compared: Sequence[LoaderResult], slowest: LoaderResult) -> list[str]:
    """Return what autopipe would take if nothing but its epochs' own work took time."""
    ours = next((each for each in compared if each.name == PLANNER and each.least), None)
    if ours is None:
        return []
    more = ours.seconds - ours.least
    return [
        f"The limit: what {PLANNER} works in these epochs keeps all cores busy for {ours.least:.2f} s, which would be "
        f"{slowest.seconds / ours.least:.1f} times. It takes {more:.2f} s more: {ours.preparing:.2f} s to prepare, and "
        "the rest while a core has nothing to do.",
        "",
    ]
