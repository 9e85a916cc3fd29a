"""What is measured while a pipeline runs: the GPU, the host, and how long the consumer waits for input."""

from autopipe.telemetry._base import (
    DeviceReading,
    GpuReading,
    HostReading,
    Span,
    StallReading,
    TelemetryWarning,
)
from autopipe.telemetry.gpu import GpuMeter
from autopipe.telemetry.host import HostMeter
from autopipe.telemetry.sampler import Sampler
from autopipe.telemetry.stall import StallCounter, metered

__all__ = [
    "DeviceReading",
    "GpuMeter",
    "GpuReading",
    "HostMeter",
    "HostReading",
    "Sampler",
    "Span",
    "StallCounter",
    "StallReading",
    "TelemetryWarning",
    "metered",
]
