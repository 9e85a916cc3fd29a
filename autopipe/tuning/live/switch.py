"""How iterators come to run with the knobs that a search wants: at once, or from the next one on."""

from __future__ import annotations

import time

from autopipe.runtime.readings import Reading
from autopipe.tuning.live.next_epoch import NextEpoch
from autopipe.tuning.search.search import Search

__all__ = ["Switch"]

# As was seen: the first waits for the next iterator if it may not be worth that.
_SLOWEST_SWAP_SECONDS = 0.1


class Switch:
    """Changes a live iterator where that is worth what it takes, and else sees to it that the next one has the knobs.

    The best values are set for good, and a challenger for single iterators: training may end at any moment.

    Args:
        search: says what is to run, and is told what it took.
        next_epoch: knows how long an iterator goes on.
        most_loss: the share of the rest of its time that may be lost in any case.
        in_loop: whether a training loop takes the iterators, of which the next one is the next epoch's.
    """

    def __init__(self, search: Search, next_epoch: NextEpoch, most_loss: float, *, in_loop: bool) -> None:
        self._search = search
        self._next_epoch = next_epoch
        self._most_loss = most_loss
        self._in_loop = in_loop
        self._swap_seconds = _SLOWEST_SWAP_SECONDS
        self._goes_on_as_it_is: Reading | None = None

    def runs(self, reading: Reading) -> bool:
        """Return whether an iterator runs with what is to run now; one that does not yet is changed, if it can be."""
        if reading.knobs != self._search.running and reading is not self._goes_on_as_it_is:
            self.at_once(reading)
        return reading.knobs == self._search.running

    def waits_for_next(self, reading: Reading) -> bool:
        """Return whether what is to run now comes with the next iterator only."""
        return reading is self._goes_on_as_it_is and reading.knobs != self._search.running

    def when_worth_it(self, reading: Reading) -> None:
        """Change an iterator, or leave it to the next one where going on costs less; so it is in short epochs."""
        seconds = self._next_epoch.seconds_to_come
        # Longer than the epoch before is as unknown as the first.
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
        """Change an iterator; one that cannot be changed is followed by one that has the values."""
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
