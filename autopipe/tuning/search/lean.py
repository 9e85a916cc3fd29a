"""Giving back what training does not need: fewer calls, threads and buffers, if it does not wait for them anyway."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from autopipe.environment import processors
from autopipe.tuning.search.distributions import AUTOMATIC, SWITCH, listed
from autopipe.tuning.search.trial import Values

__all__ = ["leaner"]


def leaner(knobs: Values, space: Mapping[str, Any], settled: set[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield, for each knob that is not settled, its name and the knobs with the next smaller number for it.

    >>> from optuna.distributions import CategoricalDistribution
    >>> space = {"calls": CategoricalDistribution((-1, 1, 10**6)), "buffer_size": CategoricalDistribution((1, 4))}
    >>> list(leaner({"calls": -1, "buffer_size": 4}, space, settled=set()))
    [('calls', {'calls': 1, 'buffer_size': 4}), ('buffer_size', {'calls': -1, 'buffer_size': 1})]
    >>> list(leaner({"calls": 1, "buffer_size": 1}, space, settled=set()))
    []
    >>> list(leaner({"unbounded": 0}, {"unbounded": CategoricalDistribution((0, 1))}, settled=set()))
    []
    """
    for name, distribution in space.items():
        smaller = _smaller(name, knobs[name], listed(distribution))
        if name not in settled and smaller:
            yield name, {**knobs, name: max(smaller)}


def _smaller(name: str, now: int, choices: set[int]) -> list[int]:
    if choices <= SWITCH:
        return [value for value in choices if value < now]
    if now not in AUTOMATIC:
        return [value for value in choices - AUTOMATIC if value < now]
    # TensorFlow lets a buffer grow up to what memory allows, and makes as many calls and threads as there are
    # processors.
    most = math.inf if name.endswith("buffer_size") else processors()
    return [value for value in choices - AUTOMATIC if value <= most]
