"""How much time trials may cost: what they lost must stay a small share of the whole, or be won back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autopipe.tuning.window import Window

__all__ = ["Patience"]

# What the two swaps of a trial take, in seconds; measured as 0.02 to 0.1 each, and as nothing between two epochs.
_FIRST_PRICE = 0.075


@dataclass
class Patience:
    """An account of the seconds that trials, and the swaps between them, lost and won.

    Args:
        most_loss: the share of all time that trials may lose, beyond what they won; ``math.inf`` for any.

    >>> patience = Patience(most_loss=0.02)
    >>> patience.ran(Window(200, 10.0, 0.0), speedup=1.0)
    >>> patience.allows_another
    True
    >>> patience.tried(Window(10, 1.0, 0.5), neighbours_rate=20.0)
    >>> round(patience.lost, 2), patience.allows_another
    (0.5, False)
    >>> patience.ran(Window(1000, 50.0, 0.0), speedup=1.0)
    >>> patience.allows_another
    True
    """

    most_loss: float = math.inf
    elapsed: float = 0.0
    lost: float = 0.0
    won: float = 0.0
    trials: int = 0

    @property
    def seconds_to_wait(self) -> float:
        """How long, at the most, until one more trial may begin: it is expected to cost what those before did."""
        if math.isinf(self.most_loss):
            return 0.0
        price = self.lost / self.trials if self.trials else _FIRST_PRICE
        owed = self.lost + price - self.won - self.most_loss * self.elapsed
        if owed <= 0:
            return 0.0
        return owed / self.most_loss if self.most_loss else math.inf

    @property
    def allows_another(self) -> bool:
        """Whether one more trial may begin now."""
        return self.seconds_to_wait <= 0

    def lose(self, seconds: float) -> None:
        """Count time in which there was nothing else, such as what it took to change the knobs."""
        self.elapsed += seconds
        self.lost += seconds

    def ran(self, window: Window, speedup: float) -> None:
        """Count a window of the best knobs so far, which make so many times as many steps as the first ones."""
        self.elapsed += window.seconds
        self.won += max(window.seconds * (speedup - 1.0), 0.0)

    def tried(self, window: Window, neighbours_rate: float) -> None:
        """Count the window of a challenger, whose neighbours made so many steps per second."""
        self.trials += 1
        self.elapsed += window.seconds
        if neighbours_rate > 0:
            self.lost += max(window.seconds * (1.0 - window.rate / neighbours_rate), 0.0)
