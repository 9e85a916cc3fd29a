"""How much time trials may cost: what they lose must stay a small share of the whole, or be won back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autopipe.tuning.search.window import Window

__all__ = ["LossBudget"]

# The seconds that the two swaps of a trial take; measured as 0.02 to 0.1 each, and as nothing between two epochs.
_FIRST_PRICE = 0.075
# A training that waits for this share of its time may lose the whole share allowed. One that waits less can win less,
# and may lose proportionally less, down to what giving resources back takes.
_MUCH_WAITING = 0.1
_LEAST_OF_SHARE = 0.2


@dataclass
class LossBudget:
    """An account of the seconds that trials, and the swaps between them, lost and won.

    Args:
        most_loss: the share of all time that trials may lose, beyond what they won; ``math.inf`` for any.
        ends_waiting: whether all that trials can win is the time in which training waits.

    >>> budget = LossBudget(most_loss=0.02)
    >>> budget.ran(Window(200, 10.0, 0.0))
    >>> budget.allows_another
    True
    >>> budget.tried(Window(10, 1.0, 0.5), neighbours_rate=20.0)
    >>> round(budget.lost, 2), budget.allows_another
    (0.5, False)
    >>> budget.ran(Window(1000, 50.0, 0.0))
    >>> budget.allows_another
    True
    """

    most_loss: float = math.inf
    ends_waiting: bool = False
    elapsed: float = 0.0
    lost: float = 0.0
    won: float = 0.0
    trials: int = 0
    _speedup: float = 1.0
    _seconds: float = 0.0
    _waiting_seconds: float = 0.0

    @property
    def share(self) -> float:
        """The share of all time that may be lost: less than ``most_loss`` if training waits little.

        >>> budget = LossBudget(most_loss=0.01, ends_waiting=True)
        >>> budget.ran(Window(100, 10.0, 0.5))
        >>> budget.share
        0.005
        """
        if not self.ends_waiting or not self._seconds:
            return self.most_loss
        waiting = self._waiting_seconds / self._seconds
        return self.most_loss * min(max(waiting / _MUCH_WAITING, _LEAST_OF_SHARE), 1.0)

    @property
    def seconds_to_wait(self) -> float:
        """The longest time until another trial may begin: it is expected to cost as much as earlier ones did."""
        share = self.share
        if math.isinf(share):
            return 0.0
        price = self.lost / self.trials if self.trials else _FIRST_PRICE
        owed = self.lost + price - self.won - share * self.elapsed
        if owed <= 0:
            return 0.0
        return owed / share if share else math.inf

    @property
    def allows_another(self) -> bool:
        """Whether one more trial may begin now."""
        return self.seconds_to_wait <= 0

    def lose(self, seconds: float) -> None:
        """Count time that was spent on nothing else, such as changing the knobs."""
        self.elapsed += seconds
        self.lost += seconds

    def sped_up(self, gain: float) -> None:
        """Note new best knobs, which make this share more steps; how long they wait is not yet known."""
        self._speedup *= 1 + gain
        self._seconds = self._waiting_seconds = 0.0

    def ran(self, window: Window) -> None:
        """Count a window of the best knobs so far: the steps they make beyond those of the first knobs are won."""
        self.elapsed += window.seconds
        self.won += max(window.seconds * (self._speedup - 1.0), 0.0)
        self._seconds += window.seconds
        self._waiting_seconds += window.waiting_seconds

    def tried(self, window: Window, neighbours_rate: float) -> None:
        """Count the window of a challenger, whose neighbours made this many steps per second."""
        self.trials += 1
        self.elapsed += window.seconds
        if neighbours_rate > 0:
            self.lost += max(window.seconds * (1.0 - window.rate / neighbours_rate), 0.0)
