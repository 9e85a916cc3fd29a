"""Reading a meter at a steady pace, beside the training."""

import threading
from collections import deque
from types import TracebackType

from autopipe.errors import ArgumentError
from autopipe.telemetry._base import Meter, Reading


class Sampler:
    """Reads a meter every ``interval`` seconds in a thread of its own, and tells the mean since a mark.

    It keeps the last ``keep`` samples, so memory is bounded however long it runs. Readings that are None
    count for nothing. The first is taken by `start` itself, in the caller's thread: a meter's complaint
    shows up there. The meter stays the caller's to close.

    A driver's figure may already be an average over up to a second: let a window be longer than that.

    Raises:
        ArgumentError: ``interval`` or ``keep`` is not positive.

    >>> from autopipe.telemetry import HostMeter
    >>> with Sampler(HostMeter(), interval=0.01) as sampler:
    ...     start = sampler.mark()
    ...     busy = sum(range(3_000_000))
    >>> 0 < sampler.mean(start) <= 1
    True
    """

    def __init__(self, meter: Meter[Reading], interval: float = 0.1, *, keep: int = 4096) -> None:
        if not interval > 0:
            raise ArgumentError(f"`interval` must be above 0 seconds, but got {interval!r}. Try 0.1.")
        if keep < 1:
            raise ArgumentError(f"`keep` must be at least 1 sample, but got {keep!r}. Try 4096.")
        self._meter = meter
        self._interval = interval
        self._values: deque[float] = deque(maxlen=keep)
        self._taken = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample; nothing happens if it has begun already."""
        if self._thread is not None:
            return
        self._sample()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="autopipe-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the samples stay. `start` goes on from there."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None

    def mark(self) -> int:
        """Return a name for now, to be given to `mean` later."""
        with self._lock:
            return self._taken

    def mean(self, mark: int) -> float | None:
        """Return the mean utilization (0 to 1) over the samples since ``mark``, or None if there are none."""
        with self._lock:
            fresh = list(self._values)[-(self._taken - mark) :] if self._taken > mark else []
        return sum(fresh) / len(fresh) if fresh else None

    def __enter__(self) -> "Sampler":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        # The lock is not held while reading: a slow driver must not hold up `mark` and `mean`.
        reading = self._meter.read()
        if reading is not None:
            with self._lock:
                self._values.append(reading.utilization)
                self._taken += 1
