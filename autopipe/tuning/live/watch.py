"""Watching after the search: when the accelerator lastingly waits more than it did, it is time to search again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from autopipe.tuning.search.window import OBJECTIVES, Window

__all__ = ["Watch"]

_FALLEN = 0.9
_FOR_GOOD = 5


@dataclass
class Watch:
    """Compares windows with the last window of the search.

    Args:
        objective: which figure of a window counts.
        reference: the last window of the search; if ``None``, the first window fed.
    """

    objective: str
    reference: Window | None = None
    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_FOR_GOOD))

    def fell(self, window: Window) -> bool:
        """Take one more window; return whether the last five were all more than a tenth below the reference.

        >>> watch = Watch("busy", Window(100, 1.0, 0.1))
        >>> [watch.fell(Window(100, 1.0, 0.4)) for _ in range(5)]
        [False, False, False, False, True]
        """
        if self.reference is None:
            self.reference = window
        measure = OBJECTIVES[self.objective]
        self._latest.append(measure(window))
        return len(self._latest) == _FOR_GOOD and max(self._latest) < _FALLEN * measure(self.reference)
