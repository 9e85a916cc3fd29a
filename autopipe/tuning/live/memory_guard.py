"""The memory that tuning may add, checked while training runs."""

from __future__ import annotations

import time

from autopipe.planning.memory.machine import Machine, resident_bytes

__all__ = ["MemoryGuard"]

_LOOK_SECONDS = 0.05
# A look during training takes 0.3 ms: nothing it needs is in the processor's caches.
_SECONDS_WHERE_NOTHING_IS_TRIED = 0.5
_SHARE_OF_AVAILABLE = 0.5


class MemoryGuard:
    """Detects that the process has grown by more than its budget.

    Args:
        budget: bytes it may grow by; by default half of what it can still get.
        promised: bytes it may grow by in addition, for caches that are not full yet.

    >>> MemoryGuard(budget=2**40).is_exceeded()
    False
    """

    def __init__(self, budget: int | None = None, promised: int = 0) -> None:
        if budget is None:
            budget = int(max(Machine.here().available_bytes - promised, 0) * _SHARE_OF_AVAILABLE)
        self.budget = budget
        self._seen = self._highest = resident_bytes()
        self._limit = self._seen + self.budget + promised
        self._looked = 0.0

    def is_exceeded(self, *, trying: bool = True) -> bool:
        """Look at most twenty times a second, or twice if nothing is being tried; in between return ``False``."""
        if not self._is_time_to_look(_LOOK_SECONDS if trying else _SECONDS_WHERE_NOTHING_IS_TRIED):
            return False
        self._seen = resident_bytes()
        return self._seen > self._limit

    @property
    def room(self) -> int:
        """The bytes of the budget that are left.

        >>> 0 < MemoryGuard(budget=2**40).room <= 2**40
        True
        """
        return min(max(self._limit - resident_bytes(), 0), self.budget)

    def leave_out(self) -> None:
        """Allow the growth since the last look: it is due to something else, such as a cached validation dataset.

        The buffers of an iterator that starts meanwhile also grow the process, in each epoch, while other buffers are
        freed. So only growth beyond the highest level seen here before is allowed, or the limit would rise each time.

        >>> guard = MemoryGuard(budget=0)
        >>> others = bytearray(2**26)
        >>> guard.leave_out()
        >>> guard.is_exceeded()
        False
        """
        if not self._is_time_to_look(_LOOK_SECONDS):
            return
        before, self._seen = self._seen, resident_bytes()
        self._limit += max(self._seen - max(before, self._highest), 0)
        self._highest = max(self._highest, self._seen)

    def _is_time_to_look(self, seconds: float) -> bool:
        now = time.perf_counter()
        if now - self._looked < seconds:
            return False
        self._looked = now
        return True
