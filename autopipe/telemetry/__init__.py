"""What is measured while a pipeline runs: the GPU, and how long the consumer waits for input."""

from autopipe.telemetry._base import (
    DeviceReading,
    GpuReading,
    Span,
    StallReading,
    TelemetryWarning,
)
from autopipe.telemetry.gpu import GpuMeter
from autopipe.telemetry.sampler import Sampler

__all__ = [
    "DeviceReading",
    "GpuMeter",
    "GpuReading",
    "Sampler",
    "Span",
    "StallReading",
    "TelemetryWarning",
]
