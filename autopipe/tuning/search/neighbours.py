"""The settings one step away from another: a sampler that has seen few trials seldom proposes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any

from autopipe.tuning.search.distributions import AUTOMATIC, SWITCH, listed

__all__ = ["neighbours"]


def neighbours(knobs: Mapping[str, int], space: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Yield the knobs with one of them changed: switched, the next number up or down, or left to TensorFlow.

    The neighbours of TensorFlow's own choice are the middle, the largest and the smallest number. There may not be time
    for all, so one step of each knob comes first.

    >>> from optuna.distributions import CategoricalDistribution
    >>> space = {"calls": CategoricalDistribution((-1, 1, 2, 8)), "unbounded": CategoricalDistribution((0, 1))}
    >>> for each in neighbours({"calls": 2, "unbounded": 0}, space):
    ...     print(each)
    {'calls': 8, 'unbounded': 0}
    {'calls': 2, 'unbounded': 1}
    {'calls': 1, 'unbounded': 0}
    {'calls': -1, 'unbounded': 0}
    >>> [each["calls"] for each in neighbours({"calls": -1}, {"calls": space["calls"]})]
    [2, 8, 1]
    """
    steps = [[(name, value) for value in _steps(knobs[name], listed(space[name]))] for name in space]
    for step in chain.from_iterable(zip_longest(*steps)):
        if step is not None:
            yield {**knobs, **dict([step])}


def _steps(now: int, choices: set[int]) -> list[int]:
    """Return the values one step away, upward first."""
    if choices <= SWITCH:
        return sorted(choices - {now})
    numbers = sorted(choices - AUTOMATIC)
    if now in AUTOMATIC:
        return list(dict.fromkeys([numbers[len(numbers) // 2], numbers[-1], numbers[0]])) if numbers else []
    up = [value for value in numbers if value > now][:1]
    down = [value for value in numbers if value < now][-1:]
    return [*up, *down, *sorted(choices & AUTOMATIC)]
