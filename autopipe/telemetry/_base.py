"""The readings of meters: immutable, in SI units, shares between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceReading", "GpuReading", "Span", "StallReading", "TelemetryWarning"]


class TelemetryWarning(UserWarning):
    """A figure cannot be measured on this machine; training goes on without it."""


@dataclass(frozen=True, slots=True)
class Span:
    """How busy something was over a span of time.

    Attributes:
        began: on the clock of ``time.perf_counter``, in seconds.
        ended: on the same clock.
        utilization: the mean over the span, 0 to 1.
        devices: the number of devices it is the mean of.

    >>> Span(began=1.0, ended=1.2, utilization=0.5).overlap(1.1, 9.0) < 0.101
    True
    """

    began: float
    ended: float
    utilization: float
    devices: float = 1.0

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.ended - self.began

    def with_(self, other: Span) -> Span:
        """Return both as one span.

        >>> Span(0.0, 1.0, 0.5).with_(Span(1.0, 2.0, 0.0))
        Span(began=0.0, ended=2.0, utilization=0.25, devices=1.0)
        """
        began, ended = min(self.began, other.began), max(self.ended, other.ended)
        ours, theirs = self.seconds * self.devices, other.seconds * other.devices
        utilization = (self.utilization * ours + other.utilization * theirs) / (ours + theirs)
        return Span(began, ended, utilization, (ours + theirs) / (ended - began))

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
        memory_total_bytes: all memory of the GPU; ``None`` if the driver does not report it, as for a GPU that shares
            the memory of its machine.
    """

    index: int
    name: str
    utilization: float
    memory_total_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The GPUs this process uses, at one moment; never empty.

    >>> one = DeviceReading(0, "A100", utilization=0.25, memory_total_bytes=8)
    >>> two = DeviceReading(1, "A100", utilization=0.75, memory_total_bytes=8)
    >>> GpuReading((one, two)).utilization
    0.5
    """

    devices: tuple[DeviceReading, ...]

    @property
    def utilization(self) -> float:
        """Mean utilization of the devices, 0 to 1."""
        return sum(device.utilization for device in self.devices) / len(self.devices)


@dataclass(frozen=True, slots=True)
class StallReading:
    """How long a consumer of a pipeline has waited, in all.

    Attributes:
        waiting_seconds: time between asking for an element and having it, summed over the elements.
        batches: how many elements were handed over.
    """

    waiting_seconds: float
    batches: int
