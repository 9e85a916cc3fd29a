"""Epochs that follow one another without a pause: the next iterator starts before this one ends."""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.readings import Reading

__all__ = ["NextEpoch"]


class NextEpoch:
    """Starts the iterator of the next epoch early, by the time it takes to make it and get a first element.

    A new iterator is cold: TensorFlow has to rewrite its pipeline, fill its shuffle buffers and open its files. How
    long that takes, and how long an epoch is, is known from the epochs before. It is made on a separate thread, so that
    no step within ``fit`` waits for it; in a custom training loop, where nothing signals that an epoch is over, one
    step waits until it can be offered. Where one iterator serves several epochs there is nothing to do.

    Args:
        executor: makes it; by default one with a thread.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        # Made when it is needed: callbacks are copied, and a pool of threads cannot be.
        self._executor = executor
        self._dataset: OptimizedDataset | None = None
        self._starting: Future[Any] | None = None
        self._start_seconds = 0.0
        self._is_asked_for = True
        self._was_tried = False
        self._reading: Reading | None = None
        self._began = self._latest = 0.0
        self._steps = 0
        self._steps_of_epoch = 0
        self._seconds_of_epoch = 0.0
        self._cold_seconds = 0.0

    @property
    def seconds_to_come(self) -> float | None:
        """How long the epoch under way goes on, if it is as long as the one before; ``None`` in the first."""
        if not self._steps_of_epoch:
            return None
        return (self._steps_of_epoch - self._steps) * self._seconds_of_epoch / self._steps_of_epoch

    @property
    def seconds_to_start(self) -> float | None:
        """The seconds until the next iterator must be started, 0 if one step later is too late; ``None`` for never."""
        to_come = self.seconds_to_come
        if to_come is None or not self._is_asked_for or self._was_tried:
            return None
        step_seconds = self._seconds_of_epoch / self._steps_of_epoch
        return max(to_come - step_seconds - self._cold_seconds - self._start_seconds, 0.0)

    def step(self, reading: Reading, *, steps: int = 1, start: bool) -> None:
        """Note that training steps have ended. Call it when :attr:`seconds_to_start` has passed.

        Args:
            reading: the reading that gave their batches.
            steps: how many have ended since the last call.
            start: whether to start the next iterator if it is time to.
        """
        if reading is not self._reading:
            self._begin(reading)
        self._latest = time.perf_counter()
        self._steps += steps
        if start and self.seconds_to_start == 0.0:
            self._was_tried = True
            self._dataset = reading.dataset
            self._executor = self._executor or ThreadPoolExecutor(1, "autopipe-next-epoch")
            self._starting = self._executor.submit(self._start, reading)

    def offer(self) -> None:
        """Give the iterator that was started, if any, to the next ``iter()``; wait for it if it is being made."""
        iterator = self._iterator()
        if self._dataset is not None and iterator is not None:
            self._dataset.offer(iterator)

    def let_go(self) -> None:
        """Free the iterator that was started, if it is not referenced elsewhere."""
        self._dataset = self._starting = None

    def _start(self, reading: Reading) -> Any:
        began = time.perf_counter()
        try:
            iterator = reading.dataset.start_early(reading.after)
        except (MemoryError, RuntimeError, tf.errors.OpError):
            # Two iterators at once may be too many. Any other error is raised by the next iterator, when it starts.
            iterator = None
        self._start_seconds = time.perf_counter() - began
        return iterator

    def _iterator(self) -> Any:
        return None if self._starting is None else self._starting.result()

    def _begin(self, reading: Reading) -> None:
        """Note a new iterator, how long the one before was read, and how long the new one kept training waiting."""
        assert reading.stall is not None
        if self._reading is not None:
            self._steps_of_epoch, self._seconds_of_epoch = self._steps, self._latest - self._began
        started = self._iterator()
        if started is not None:
            self._is_asked_for = reading.iterator() is started
        if started is None or not self._is_asked_for:
            self._cold_seconds = reading.stall.read().waiting_seconds
        self._reading, self._steps, self._began = reading, 0, time.perf_counter()
        self._latest = self._began
        self._was_tried = False
        self.let_go()
