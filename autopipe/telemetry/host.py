"""The running process and its host, read through psutil."""

import threading
import time

import psutil

from autopipe.errors import ArgumentError
from autopipe.telemetry._base import HostReading

__all__ = ["HostMeter"]


class HostMeter:
    """CPU and memory of this process and of its host, between one reading and the next.

    Args:
        cores: how many cores this process may keep busy: ``Machine.here().cores``, which knows the quota of a
            container. By default, as many as the scheduler lets it run on.

    Raises:
        ArgumentError: ``cores`` is not positive.

    >>> from autopipe.telemetry import HostMeter
    >>> meter = HostMeter(cores=1.0)
    >>> busy = sum(range(1_000_000))
    >>> reading = meter.read()
    >>> 0 < reading.utilization <= 1, reading.process_bytes > 0
    (True, True)
    """

    def __init__(self, cores: float | None = None) -> None:
        if cores is not None and not cores > 0:
            raise ArgumentError(f"`cores` must be above 0, but got {cores!r}. Leave it out to have them counted.")
        self._process = psutil.Process()
        self._cores = cores or len(self._process.cpu_affinity() or ()) or psutil.cpu_count() or 1
        self._lock = threading.Lock()
        self._closed = False
        self._clock = _clock()
        self._host = _host_seconds()

    def read(self) -> HostReading | None:
        """Return the figures since the reading before (at first: since the meter was made)."""
        utilization = self.utilization()
        if utilization is None:
            return None
        with self._lock:
            (busy, total), (busy_before, total_before) = _host_seconds(), self._host
            self._host = busy, total
        host = _share(busy - busy_before, total - total_before) if total > total_before else None
        return HostReading(
            utilization=utilization,
            host_utilization=host,
            process_bytes=self._process.memory_info().rss,
            available_bytes=psutil.virtual_memory().available,
        )

    def utilization(self) -> float | None:
        """Return the first figure alone, since it was told before: the others take a hundred times as long.

        >>> 0 <= HostMeter().utilization() <= 1
        True
        """
        with self._lock:
            if self._closed:
                return None
            (wall, cpu), (wall_before, cpu_before) = _clock(), self._clock
            self._clock = wall, cpu
        return _share(cpu - cpu_before, (wall - wall_before) * self._cores)

    def close(self) -> None:
        """End the meter; it reads None from then on."""
        with self._lock:
            self._closed = True


def _clock() -> tuple[float, float]:
    # The nanosecond clock of the process: psutil's moves in steps of 10 ms, too coarse for short windows.
    return time.perf_counter(), time.process_time()


def _host_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()._asdict()
    # Linux counts the time of guests a second time, within user and nice.
    total = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
    return total - times["idle"] - times.get("iowait", 0.0), total


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0)
