"""How iterators get the knobs that a search wants: at once, or from the next iterator on."""

from __future__ import annotations

import time

from autopipe.runtime.readings import Reading
from autopipe.tuning.live.next_epoch import NextEpoch
from autopipe.tuning.search.search import Search

__all__ = ["Switch"]

# The slowest swap seen in measurements. The first change waits for the next iterator if it may not be worth this.
_SLOWEST_SWAP_SECONDS = 0.1


class Switch:
    """Changes a live iterator if that is worth its cost; otherwise the next iterator gets the knobs.

    The best values are set for good, and a challenger for single iterators: training may end at any moment.

    Args:
        search: decides what should run, and counts what changes cost.
        next_epoch: knows how long an iterator lasts.
        most_loss: the share of the rest of its time that may be lost in any case.
        in_loop: whether a custom training loop takes the iterators, so that the next one is that of the next epoch.
    """

    def __init__(self, search: Search, next_epoch: NextEpoch, most_loss: float, *, in_loop: bool) -> None:
        self._search = search
        self._next_epoch = next_epoch
        self._most_loss = most_loss
        self._in_loop = in_loop
        self._swap_seconds = _SLOWEST_SWAP_SECONDS
        self._goes_on_as_it_is: Reading | None = None

    def runs(self, reading: Reading) -> bool:
        """Return whether an iterator runs with the knobs that should run now, after changing it if that is possible."""
        if reading.knobs != self._search.running and reading is not self._goes_on_as_it_is:
            self.at_once(reading)
        return reading.knobs == self._search.running

    def waits_for_next(self, reading: Reading) -> bool:
        """Return whether the knobs that should run now come only with the next iterator."""
        return reading is self._goes_on_as_it_is and reading.knobs != self._search.running

    def when_worth_it(self, reading: Reading) -> None:
        """Change an iterator, or leave it to the next one if continuing costs less, as in short epochs."""
        seconds = self._next_epoch.seconds_to_come
        # An epoch longer than the one before is as unknown as the first.
        if seconds is None or seconds < 0 or self._swap_seconds <= max(self._search.losing, self._most_loss) * seconds:
            self.at_once(reading)
            return
        if self._search.running == self._search.incumbent != reading.dataset.knobs:
            reading.dataset.retune_next(self._search.running)
        else:
            self._search.ran_on(seconds)
            if self._in_loop:
                reading.dataset.try_out_next(self._search.running)
        self._goes_on_as_it_is = reading

    def at_once(self, reading: Reading) -> None:
        """Change an iterator; if it cannot be changed, the next one gets the values."""
        began = time.perf_counter()
        if self._search.running == self._search.incumbent:
            reading.dataset.retune(self._search.running)
        else:
            reading.dataset.try_out(reading, self._search.running)
            if self._in_loop:
                reading.dataset.try_out_next(self._search.running)
        seconds = time.perf_counter() - began
        if reading.knobs == self._search.running:
            self._swap_seconds = seconds
        else:
            self._goes_on_as_it_is = reading
        self._search.swapped(seconds)
