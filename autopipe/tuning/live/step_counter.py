"""Counting training steps, and looking at few of them."""

from __future__ import annotations

import time

__all__ = ["StepCounter"]


class StepCounter:
    """Counts steps, and decides which of them is worth a look.

    There is little to do for a step, but during training it takes ten times as long as by itself. A look is due after
    a time, and sooner if epochs are short.

    >>> counter = StepCounter()
    >>> counter.count()
    True
    >>> counter.look_after(seconds=60.0, looks_in_epoch=2)
    >>> [counter.count() for _ in range(3)], counter.take(), counter.take()
    ([True, True, True], 4, 0)
    >>> counter.look_after(seconds=60.0, looks_in_epoch=2)
    >>> [counter.count() for _ in range(3)]
    [False, True, True]
    """

    def __init__(self) -> None:
        self._unseen = self._steps = self._most_unseen = 0
        self._next_look = 0.0

    def count(self) -> bool:
        """Note that a step has ended, and return whether to look."""
        self._unseen += 1
        return self._unseen >= self._most_unseen or time.perf_counter() >= self._next_look

    def take(self) -> int:
        """Return how many steps have ended since the last call."""
        steps, self._unseen = self._unseen, 0
        self._steps += steps
        return steps

    def look_at_next(self) -> None:
        """Have the next step looked at."""
        self._next_look = 0.0

    def look_after(self, seconds: float, looks_in_epoch: int) -> None:
        """Look next after this many seconds, but this often in the longer of this epoch and the one before."""
        self._next_look = time.perf_counter() + seconds
        self._most_unseen = max(self._most_unseen, self._steps // looks_in_epoch)

    def end_epoch(self, looks_in_epoch: int) -> None:
        """Note that an epoch has ended, with the steps taken of it."""
        self._most_unseen, self._steps = self._steps // looks_in_epoch, 0
