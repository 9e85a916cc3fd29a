"""The table of what the callbacks cost."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.overhead import AGAIN, MONITOR, PLAIN, SETTLED, TUNER, OverheadResult

__all__ = ["overhead_lines"]

_CALLBACKS = (MONITOR, SETTLED, TUNER)


def overhead_lines(results: Sequence[OverheadResult]) -> list[str]:
    """Return a table with a row for each model and pipeline."""
    if not results:
        return []
    lines = [
        "## What the callbacks cost",
        "",
        f"Steps per second of a whole `fit` ÷ those with {PLAIN}, where there is nothing to gain: the median of the "
        "ratios within a round, with the interval in which the true one lies 19 times in 20 (of five rounds, the "
        "lowest and the highest: 15 times in 16). In a round each has a `fit` of its own, and they train in turn, some "
        "epochs each, with each model once. "
        f"*{AGAIN}*: what two equal ones differ by; the others are compared with both. "
        f"*{SETTLED}*: no search, it only looks on. *{TUNER}*: trials included, if there is time for one: "
        "where training hardly waits, the first comes later. *Taken*: the share of a step that the "
        "callback's methods, slower windows of its trials, the meter of the waiting and making its iterators take by "
        "the clock from the second epoch on; what the clock takes itself, timing a callback that does nothing, is not "
        "counted.",
        "",
        f"| | model | pipeline | steps an epoch | ms a step | {AGAIN} "
        f"| {' | '.join(f'{name} | taken' for name in _CALLBACKS)} |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in results:
        ratios = " | ".join(f"{each.ratio(name):.3f} | {each.taken(name):.2%}" for name in _CALLBACKS)
        lengths = f"{each.steps} | {each.step_seconds * 1e3:.2f}"
        again = f"{each.ratio(AGAIN):.3f}" if AGAIN in each.rates else "not measured"
        lines.append(f"| {each.letter} | {each.name} | {each.pipeline} | {lengths} | {again} | {ratios} |")
    return [*lines, ""]
