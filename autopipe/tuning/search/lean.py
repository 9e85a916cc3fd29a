"""Giving back what training does not need: fewer calls, threads and buffers, where it does not wait for them anyway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autopipe.tuning.search.distributions import AUTOMATIC, SWITCH, listed

__all__ = ["leaner"]

Values = Mapping[str, int]


def leaner(knobs: Values, space: Mapping[str, Any], settled: set[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield, for each knob that is not settled, its name and the knobs with the next smaller number for it.

    >>> from optuna.distributions import CategoricalDistribution
    >>> space = {"calls": CategoricalDistribution((-1, 1, 2, 8)), "buffer": CategoricalDistribution((1, 4))}
    >>> list(leaner({"calls": -1, "buffer": 4}, space, settled=set()))
    [('calls', {'calls': 8, 'buffer': 4}), ('buffer', {'calls': -1, 'buffer': 1})]
    >>> list(leaner({"calls": 2, "buffer": 1}, space, settled=set()))
    [('calls', {'calls': 1, 'buffer': 1})]
    >>> list(leaner({"unbounded": 0}, {"unbounded": CategoricalDistribution((0, 1))}, settled=set()))
    []
    """
    for name, distribution in space.items():
        smaller = _smaller(knobs[name], listed(distribution))
        if name not in settled and smaller:
            yield name, {**knobs, name: max(smaller)}


def _smaller(now: int, choices: set[int]) -> list[int]:
    if choices <= SWITCH:
        return [value for value in choices if value < now]
    # What TensorFlow chooses by itself takes more than it says: it is followed by the largest number there is to try.
    return [value for value in choices - AUTOMATIC if now in AUTOMATIC or value < now]
