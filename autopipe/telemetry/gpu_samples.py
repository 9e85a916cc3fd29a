"""The NVIDIA driver's samples of a GPU's utilization, as spans of time."""

import time
from itertools import pairwise
from typing import Any

from autopipe.telemetry._base import Span

__all__ = ["GpuSamples"]

# "The sample period may be between 1 second and 1/6 second, depending on the product being queried" (NVML reference).
_LONGEST_PERIOD = 1.0
# The time stamps of samples agree with the wall clock to within this many microseconds.
_CLOCKS_DIFFER = 1_000_000


class GpuSamples:
    """The driver's samples of one GPU: each is the mean over the time since the one before.

    The current utilization that NVML reports is the latest sample: up to one period old, and on average half of it from
    the period before. The samples themselves have the time at which they ended (on an H200 with driver 580: every 0.2
    s). A driver that does not give samples is asked for the current utilization, which counts from the last request.

    Args:
        handle: NVML's handle of the GPU.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._stamp = 0
        self._due = 0.0
        self._asked: float | None = None
        self._are_kept = True

    def new(self, nvml: Any) -> list[Span]:
        """Return the samples since the last call, at first all that the driver remembers; the latest last.

        Raises:
            NVMLError: if the driver reports no utilization.
        """
        if self._are_kept:
            try:
                return self._kept(nvml)
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission, nvml.NVMLError_FunctionNotFound):
                self._are_kept = False
        return self._told_at_once(nvml)

    def _kept(self, nvml: Any) -> list[Span]:
        # Asking takes 1.5 ms on an H200, so it is not done before there can be an answer.
        if time.perf_counter() < self._due:
            return []
        latest = int(time.time() * 1e6) + _CLOCKS_DIFFER
        # If the wall clock was set back, new samples have earlier time stamps than old ones.
        self._stamp = min(self._stamp, latest)
        try:
            _, samples = nvml.nvmlDeviceGetSamples(self._handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, self._stamp)
        except nvml.NVMLError_NotFound:
            return []  # none since then
        samples = [sample for sample in samples if self._stamp < sample.timeStamp <= latest]
        samples.sort(key=lambda sample: sample.timeStamp)
        if samples and not self._stamp:
            # The first sample is dropped: it is unknown when it began.
            self._stamp, samples = samples[0].timeStamp, samples[1:]
        if not samples:
            return []
        stamps = [self._stamp, *(sample.timeStamp for sample in samples)]
        self._stamp = stamps[-1]
        # The driver uses the wall clock, in microseconds.
        clock = time.perf_counter() - time.time()
        ends = [stamp / 1e6 + clock for stamp in stamps]
        spans = [
            Span(max(before, ended - _LONGEST_PERIOD), ended, sample.sampleValue.uiVal / 100)
            for (before, ended), sample in zip(pairwise(ends), samples, strict=True)
        ]
        self._due = spans[-1].ended + spans[-1].seconds
        return spans

    def _told_at_once(self, nvml: Any) -> list[Span]:
        percent = nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
        before, self._asked = self._asked, time.perf_counter()
        return [] if before is None else [Span(before, self._asked, percent / 100)]
