"""The table of what searches find."""

from __future__ import annotations

from collections.abc import Sequence

from autopipe.tuning.offline.structures import OPTIMIZED
from benchmarks.search import (
    BEST,
    BEST_NUMBERS,
    GIVEN,
    LIVE,
    OFFLINE,
    SHORT,
    SHORT_TRIALS,
    SHORT_UNSEEDED,
    UNSEEDED,
    SearchResult,
)

__all__ = ["search_lines"]

_RATIOS = (
    (LIVE, GIVEN),
    (LIVE, BEST_NUMBERS),
    (LIVE, BEST),
    (OFFLINE, GIVEN),
    (OFFLINE, BEST),
    (UNSEEDED, BEST),
    (SHORT, BEST),
    (SHORT_UNSEEDED, BEST),
    (OFFLINE, UNSEEDED),
    (SHORT, SHORT_UNSEEDED),
)
_NAMES = {BEST: "best", BEST_NUMBERS: "best of the same knobs", UNSEEDED: "no seeds", SHORT_UNSEEDED: "no seeds"}


def search_lines(results: Sequence[SearchResult]) -> list[str]:
    """Return a table with a row for each pipeline."""
    if not results:
        return []
    lines = [
        "## What the searches find",
        "",
        "Steps per second with what each found, in turn: the median of the ratios within a round, and between which "
        f"figures the true one lies 19 times in 20. *{GIVEN}*: the optimized pipeline before any search. *{LIVE}*: the "
        f"numbers that `PipelineTuner` found in 20 trials at the most; *{OFFLINE}*: structure and numbers, as "
        f"`autopipe tune`, 40 trials; *{SHORT}*: {SHORT_TRIALS} trials. *No seeds*: the same without being told what "
        "to try first; of the short ones, the mean of three. *Best*: of all structures, each with all settings of a "
        "coarse grid; *best of the same knobs*: of the structure that is trained with, as in training only the numbers "
        "can change.",
        "",
        f"| | pipeline | {' | '.join(f'{chooser} ÷ {_NAMES.get(of, of)}' for chooser, of in _RATIOS)} "
        f"| grid | {LIVE} | {BEST} |",
        f"|---|---|{'---:|' * (len(_RATIOS) + 1)}---|---|",
    ]
    for each in results:
        ratios = " | ".join(_ratio(each, chooser, reference) for chooser, reference in _RATIOS)
        lines.append(
            f"| {each.letter} | {each.name} | {ratios} | {each.settings} | {_chosen(each, LIVE)} "
            f"| {_chosen(each, BEST)} |"
        )
    return [*lines, ""]


def _ratio(result: SearchResult, chooser: str, reference: str) -> str:
    return str(result.ratio(chooser, reference)) if reference in result.rates else "not measured"


def _chosen(result: SearchResult, chooser: str) -> str:
    structure = result.structures[chooser]
    named = [] if structure == OPTIMIZED else [structure]
    return ", ".join([*named, *(f"{name}={value}" for name, value in result.knobs[chooser].items())]) or "as given"
