"""The matches of one challenger against the best so far, until it is decided whether to keep it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autopipe.tuning.search.match import Match, together
from autopipe.tuning.search.trial import Values

__all__ = ["LEAST_GAIN", "Contest"]

LEAST_GAIN = 0.02
"""What a challenger must gain in one match to be kept; for n matches it is divided by the root of n."""
# The error that the gain of one match may have even if its neighbours are alike.
_UNSURE = 0.05
# Giving resources back may cost at most this share of the objective.
_UNNOTICED = 0.005
# A challenger meets the incumbent at most this many times.
_MOST_MATCHES = 5


@dataclass
class Contest:
    """A challenger, and the results of its matches so far.

    Attributes:
        values: its knobs.
        is_seed: whether there are reasons for it.
        leaner: the knob that is smaller in it, if it is to give resources back; ``None`` if it is to gain.
        matches: the matches that have ended.

    >>> better, surely_better = Match(0.03, 0.05, 0.03, 0.0, 1.0), Match(0.03, 0.0, 0.03, 0.0, 1.0)
    >>> contest = Contest({"calls": 2}, matches=[better])
    >>> contest.is_decided, contest.is_won
    (False, False)
    >>> contest.matches.append(surely_better)
    >>> contest.is_decided, contest.is_won
    (True, True)
    """

    values: Values
    is_seed: bool = False
    leaner: str | None = None
    matches: list[Match] = field(default_factory=list)

    @property
    def wanted(self) -> float:
        """What its first window must gain to be worth a second look."""
        return LEAST_GAIN if self.leaner is None else -_UNNOTICED

    @property
    def so_far(self) -> Match:
        """All its matches as one."""
        return together(self.matches)

    @property
    def is_won(self) -> bool:
        """Whether it is better than the best so far, or leaner and not noticeably worse."""
        so_far = self.so_far
        if self.leaner is not None:
            return so_far.gain >= -_UNNOTICED and so_far.rate >= -_UNNOTICED
        return so_far.is_no_slower(self._least) and so_far.gain > max(so_far.noise, self._least)

    @property
    def is_decided(self) -> bool:
        """Whether more matches are not worth their time."""
        enough = self.leaner is not None or len(self.matches) >= _MOST_MATCHES
        return enough or self.is_won or not self._may_be_better

    @property
    def _may_be_better(self) -> bool:
        so_far, least = self.so_far, self._least
        if self.is_seed:
            unsure = max(so_far.noise, _UNSURE / math.sqrt(len(self.matches)))
            return min(so_far.gain, so_far.rate) + unsure > least
        return so_far.is_no_slower(least) and so_far.gain > 0 and so_far.gain + so_far.noise > least

    @property
    def _least(self) -> float:
        return LEAST_GAIN / math.sqrt(len(self.matches))
