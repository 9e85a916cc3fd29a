"""A challenger between two windows of the incumbent: how much better it is, and how certain that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from autopipe.tuning.search.window import Window

__all__ = ["Match", "compare", "together"]


@dataclass(frozen=True)
class Match:
    """The result of a match, as ratios to the mean of the two neighbours, less one.

    Attributes:
        gain: of the objective.
        noise: how much the neighbours differ in the objective.
        rate: of the steps per second.
        drift: how much the neighbours differ in steps per second.
        seconds: time spent in the challenger's window.
    """

    gain: float
    noise: float
    rate: float
    drift: float
    seconds: float

    def is_no_slower(self, tolerance: float) -> bool:
        """Return whether steps per second fell by no more than ``tolerance`` plus the spread of the incumbent windows.

        >>> Match(0.0, 0.0, -0.04, 0.03, 1.0).is_no_slower(0.02), Match(0.0, 0.0, -0.06, 0.03, 1.0).is_no_slower(0.02)
        (True, False)
        """
        return self.rate >= -self.drift - tolerance


def compare(before: Window, challenge: Window, after: Window, measure: Callable[[Window], float]) -> Match:
    """Compare a challenger's window with its neighbours.

    Args:
        before: the window of the best so far that came before it.
        challenge: its own.
        after: the window of the best so far that came after it.
        measure: the objective.

    >>> match = compare(Window(100, 1.0, 0.5), Window(121, 1.0, 0.5), Window(120, 1.0, 0.5), lambda window: window.rate)
    >>> round(match.gain, 2), round(match.noise, 2)
    (0.1, 0.18)
    """
    old, new, again = map(measure, (before, challenge, after))
    neighbours = (old + again) / 2 or 1e-9
    return Match(
        gain=new / neighbours - 1,
        noise=abs(again - old) / neighbours,
        rate=challenge.rate * 2 / (before.rate + after.rate) - 1,
        drift=abs(after.rate / before.rate - 1),
        seconds=challenge.seconds,
    )


def together(matches: Sequence[Match]) -> Match:
    """Return several matches of one challenger as one: their median, with the noise over the root of their number.

    The median ignores a match in which the machine changed midway, whatever its result.

    >>> matches = [Match(gain, noise, gain, noise, 1.0) for gain, noise in ((0.1, 0.02), (0.04, 0.04), (-0.5, 0.9))]
    >>> two, three = together(matches[:2]), together(matches)
    >>> round(two.gain, 2), round(two.noise, 2), two.seconds
    (0.07, 0.02, 2.0)
    >>> three.gain, round(three.noise, 2)
    (0.04, 0.18)
    """
    root = math.sqrt(len(matches))
    return Match(
        gain=median(each.gain for each in matches),
        noise=fmean(each.noise for each in matches) / root,
        rate=median(each.rate for each in matches),
        drift=fmean(each.drift for each in matches) / root,
        seconds=math.fsum(each.seconds for each in matches),
    )
