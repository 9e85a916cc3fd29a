"""The readings that meters give: immutable, in SI units, shares between 0 and 1."""

from dataclasses import dataclass

__all__ = ["DeviceReading", "GpuReading", "HostReading", "Span", "StallReading", "TelemetryWarning"]


class TelemetryWarning(UserWarning):
    """A figure cannot be measured on this machine; training goes on without it."""


@dataclass(frozen=True, slots=True)
class Span:
    """How busy something was over a span of time.

    Attributes:
        began: on the clock of ``time.perf_counter``, in seconds.
        ended: on the same clock.
        utilization: the mean over the span, 0 to 1.

    >>> Span(began=1.0, ended=1.2, utilization=0.5).overlap(1.1, 9.0) < 0.101
    True
    """

    began: float
    ended: float
    utilization: float

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.ended - self.began

    def overlap(self, since: float, until: float) -> float:
        """Return how many seconds of it lie between two moments."""
        return max(min(self.ended, until) - max(self.began, since), 0.0)


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One GPU at one moment.

    Attributes:
        index: the driver's number of the GPU, as ``nvidia-smi`` shows it.
        name: what the maker calls it.
        utilization: share of the driver's last sampling period in which a kernel ran, 0 to 1.
        memory_used_bytes: memory in use, by all processes.
        memory_total_bytes: memory there is.
    """

    index: int
    name: str
    utilization: float
    memory_used_bytes: int
    memory_total_bytes: int


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The GPUs this process uses, at one moment; never empty.

    >>> one = DeviceReading(0, "A100", utilization=0.25, memory_used_bytes=1, memory_total_bytes=8)
    >>> two = DeviceReading(1, "A100", utilization=0.75, memory_used_bytes=2, memory_total_bytes=8)
    >>> both = GpuReading((one, two))
    >>> both.utilization, both.memory_used_bytes, both.memory_total_bytes
    (0.5, 3, 16)
    """

    devices: tuple[DeviceReading, ...]

    @property
    def utilization(self) -> float:
        """Mean utilization of the devices, 0 to 1."""
        return sum(device.utilization for device in self.devices) / len(self.devices)

    @property
    def memory_used_bytes(self) -> int:
        """Memory in use on all the devices together."""
        return sum(device.memory_used_bytes for device in self.devices)

    @property
    def memory_total_bytes(self) -> int:
        """Memory there is on all the devices together."""
        return sum(device.memory_total_bytes for device in self.devices)


@dataclass(frozen=True, slots=True)
class HostReading:
    """The running process and its host, since the reading before.

    Attributes:
        utilization: share of the cores open to this process that it kept busy, 0 to 1.
        host_utilization: share of all the host's cores that anyone kept busy, 0 to 1; None when the kernel's
            clock has not moved since the reading before.
        process_bytes: resident memory of this process.
        available_bytes: memory the host can still give without swapping. A container may get less:
            see ``Machine.available_bytes``.
    """

    utilization: float
    host_utilization: float | None
    process_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True)
class StallReading:
    """What a consumer of a pipeline has waited, in all.

    Attributes:
        waiting_seconds: time between asking for an element and having it, summed over the elements.
        batches: how many elements were handed over.
    """

    waiting_seconds: float
    batches: int
