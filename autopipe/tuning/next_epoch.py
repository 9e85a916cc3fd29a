"""Epochs that follow one another without a pause: the next iterator starts before this one ends."""

from __future__ import annotations

import time
from typing import Any

from autopipe.reading import Reading
from autopipe.runtime import OptimizedDataset

__all__ = ["NextEpoch"]


class NextEpoch:
    """Starts the iterator of the next epoch as long before its time as it takes to give a first element.

    A new iterator is cold: its shuffle buffers are to be filled, its files to be opened. How long that takes, and how
    long an epoch is, is known from the epochs before. Where one iterator serves several epochs there is nothing to do.
    """

    def __init__(self) -> None:
        self._dataset: OptimizedDataset | None = None
        self._iterator: Any = None
        self._is_asked_for = True
        self._was_tried = False
        self._reading: Reading | None = None
        self._began = self._latest = 0.0
        self._steps = 0
        self._steps_of_epoch = 0
        self._seconds_of_epoch = 0.0
        self._cold_seconds = 0.0

    def step(self, reading: Reading, *, start: bool) -> None:
        """Take note that a training step has ended.

        Args:
            reading: what gave its batch.
            start: whether to start the next iterator if it is time to.
        """
        if reading is not self._reading:
            self._begin(reading)
        self._steps += 1
        self._latest = time.perf_counter()
        if start and self._is_asked_for and not self._was_tried and self._is_time():
            self._was_tried = True
            self._dataset, self._iterator = reading.dataset, reading.dataset.start_early()

    def offer(self) -> None:
        """Give the iterator that was started, if there is one, to who asks next."""
        if self._dataset is not None and self._iterator is not None:
            self._dataset.offer(self._iterator)

    def let_go(self) -> None:
        """Free the iterator that was started, if nobody else holds it."""
        self._dataset = self._iterator = None

    def _begin(self, reading: Reading) -> None:
        """Take note of a new iterator, of how long the one before gave elements, and of how long it kept waiting."""
        assert reading.stall is not None
        if self._reading is not None:
            self._steps_of_epoch, self._seconds_of_epoch = self._steps, self._latest - self._began
        if self._iterator is not None:
            self._is_asked_for = reading.iterator() is self._iterator
        if self._iterator is None or not self._is_asked_for:
            self._cold_seconds = reading.stall.read().waiting_seconds
        self._reading, self._steps, self._began = reading, 0, time.perf_counter()
        self._was_tried = False
        self.let_go()

    def _is_time(self) -> bool:
        """Return whether the rest of the epoch, but for a step, takes no longer than a first element did."""
        if not self._steps_of_epoch:
            return False
        to_come = self._steps_of_epoch - self._steps - 1
        return to_come * self._seconds_of_epoch / self._steps_of_epoch <= self._cold_seconds
