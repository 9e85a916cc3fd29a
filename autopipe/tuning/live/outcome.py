"""The outcome of the searches of a training: in one line, and in figures for a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopipe.tuning.search.search import Search
from autopipe.tuning.search.trial import Trial
from autopipe.tuning.search.window import OBJECTIVES, Window, pick_objective

__all__ = ["in_one_line", "measured", "trials_of"]


def trials_of(searches: Sequence[Search]) -> list[Trial]:
    """Return the trials of all searches, in the order they were made."""
    return [trial for search in searches for trial in search.trials]


def in_one_line(searches: Sequence[Search], most_loss: float) -> str:
    """Return what the searches did, in one line.

    Args:
        searches: in the order they were made.
        most_loss: the share of the time that their trials were allowed to lose.

    >>> in_one_line([], 0.02)
    'autopipe: training was too short to measure anything: that takes at least eight steps and some tenths of a \
second, and of an epoch the first three, and within fit the last, do not count; the pipeline runs with the knobs it had'
    """
    if searches and not searches[-1].has_knobs:
        return (
            "autopipe: nothing to tune: the search space has no knob that the pipeline uses and that may change while "
            "it is read"
        )
    if searches and not searches[-1].has_trials:
        return "autopipe: no trial was asked for (trials=0); the pipeline runs with the knobs it had"
    first, last = _first_and_last(searches)
    if first is None or last is None:
        return (
            "autopipe: training was too short to measure anything: that takes at least eight steps and some tenths of "
            "a second, and of an epoch the first three, and within fit the last, do not count; the pipeline runs with "
            "the knobs it had"
        )
    latest, trials = searches[-1], trials_of(searches)
    # A GPU driver may be lost in between.
    name = pick_objective(latest.objective, first, last)
    before, after = (OBJECTIVES[name](window) for window in (first, last))
    if not trials and latest.too_early:
        return (
            f"autopipe: {name} {after:.3g}; no trial was made, since it was expected to cost more than "
            f"{latest.share_to_lose:.2%} of the time so far (most_loss={most_loss:g}, or less where training hardly "
            "waits); the pipeline runs with the knobs it had"
        )
    if not trials and latest.unmeasured:
        return (
            f"autopipe: {name} {after:.3g}; no trial came to its end: training ended before, or read one iterator that "
            "cannot be changed before its end; the pipeline runs with the knobs it had"
        )
    kept = sum(trial.kept for trial in trials)
    failed = [trial.failure for trial in trials if trial.failure]
    given_up = f", {len(failed)} given up because {failed[-1]}" if failed else ""
    plural = "" if len(trials) == 1 else "s"
    spent = sum(trial.seconds for trial in trials)
    swaps = sum(search.swap_seconds for search in searches)
    return (
        f"autopipe: {name} {before:.3g} -> {after:.3g} after {len(trials)} trial{plural} "
        f"({kept} kept{given_up}, {spent:.1f} s in trials, {swaps:.1f} s in swaps): {_knobs(searches, trials)}"
    )


def _knobs(searches: Sequence[Search], trials: Sequence[Trial]) -> str:
    """Return which knobs differ from those before the first search, or why none does."""
    original, latest = searches[0].original, searches[-1]
    changed = {key: value for key, value in latest.incumbent.items() if value != original[key]}
    if changed:
        return ", ".join(f"{key}={value}" for key, value in changed.items())
    if latest.retreated:
        return f"the knobs it had, because with those that were kept {latest.retreated}"
    if all(trial.failure for trial in trials):
        return "the knobs it had, because no trial came to its end"
    return "the knobs it had were best"


def measured(searches: Sequence[Search]) -> dict[str, Any]:
    """Return the figures before the first search and after the last one; empty if nothing was measured.

    >>> measured([])
    {}
    """
    first, last = _first_and_last(searches)
    if first is None or last is None:
        return {}
    name = pick_objective(searches[-1].objective, first, last)
    return {
        "objective": name,
        "before": OBJECTIVES[name](first),
        "after": OBJECTIVES[name](last),
        "steps_per_second_before": first.rate,
        "steps_per_second_after": last.rate,
        "trials": len(trials_of(searches)),
    }


def _first_and_last(searches: Sequence[Search]) -> tuple[Window | None, Window | None]:
    known = [search for search in searches if search.first and search.last]
    return (known[0].first, known[-1].last) if known else (None, None)
