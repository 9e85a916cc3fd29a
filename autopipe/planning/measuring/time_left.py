"""The time for measuring: some of it is reserved for the pipeline as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TimeLeft"]

# The share, and the most seconds, reserved for the whole, and once more if it seems slower: rules may use the rest.
_SHARE_FOR_WHOLE, _MOST_FOR_WHOLE = 0.2, 6.0


class TimeLeft:
    """Seconds to spend, counted from when this object is made.

    Args:
        seconds: how many seconds, in all.

    >>> TimeLeft(0.0).exhausted
    'it must be measured, and optimize(seconds=0) leaves no time for that'
    """

    def __init__(self, seconds: float) -> None:
        self.began = time.perf_counter()
        self._seconds = seconds
        self._given_up: str | None = None
        self._is_of_whole = False

    @property
    def seconds(self) -> float:
        """The seconds that are left."""
        kept = 0.0 if self._is_of_whole else min(_SHARE_FOR_WHOLE * self._seconds, _MOST_FOR_WHOLE)
        return self.began + self._seconds - kept - time.perf_counter()

    @property
    def exhausted(self) -> str | None:
        """Why nothing more can be measured of a part; ``None`` while there is time."""
        if self._given_up:
            return self._given_up
        if self._seconds <= 0:
            return "it must be measured, and optimize(seconds=0) leaves no time for that"
        return None if self.seconds > 0 else f"the {self._seconds:g} seconds for measuring are used up"

    def give_up(self, because: str) -> None:
        """Leave no time."""
        self._given_up = because

    @contextmanager
    def all_of_it(self) -> Iterator[None]:
        """Also use the time reserved for the whole, including for questions about its parts."""
        self._is_of_whole = True
        try:
            yield
        finally:
            self._is_of_whole = False
