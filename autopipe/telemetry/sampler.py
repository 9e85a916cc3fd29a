"""Collecting the readings of a meter during training."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from autopipe.telemetry._base import Span
from autopipe.telemetry.span_history import SpanHistory

__all__ = ["Sampler", "SpanMeter"]

# For this many periods after its end, the latest span stands in for stretches without a span.
_FRESH_PERIODS = 2


class SpanMeter(Protocol):
    """Something that reports how busy it was since the last request; it may be asked from any thread."""

    def spans(self) -> Sequence[Span]:
        """Return the new spans, the latest last."""


class Sampler:
    """Asks a meter every ``interval`` seconds in a separate thread, and returns the mean over any stretches of time.

    It keeps ``keep`` spans, so memory is bounded however long it runs: old spans are merged. `start` itself asks the
    meter first, in the caller's thread: a meter's warning shows up there. The caller must close the meter.

    >>> from autopipe.telemetry import Span
    >>> class Meter:
    ...     def spans(self):
    ...         return [Span(0.0, 0.2, 0.9), Span(0.2, 0.4, 0.5), Span(0.4, 0.6, 0.7)]
    >>> with Sampler(Meter()) as sampler:
    ...     round(sampler.mean((0.1, 0.65)), 3), round(sampler.period, 3)
    (0.6, 0.2)
    """

    def __init__(self, meter: SpanMeter, interval: float = 0.1, *, keep: int = 4096) -> None:
        self._meter = meter
        self._interval = interval
        self._spans = SpanHistory(keep)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample, unless it has begun already."""
        if self._thread is not None:
            return
        self._sample()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="autopipe-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the spans are kept, and `start` continues from there."""
        if self._thread is None:
            return
        self._stop.set()
        # Garbage collection may stop an unreferenced sampler in its own thread.
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    @property
    def period(self) -> float:
        """The seconds between two spans: those over which the meter averages, or the interval if that is longer."""
        with self._lock:
            latest = self._spans.latest
        return max(latest.seconds, self._interval) if latest else self._interval

    def mean(self, *stretches: tuple[float, float]) -> float | None:
        """Return the mean utilization in some stretches of time (0 to 1), or None if nothing is known of them.

        Spans at the edges of a stretch also cover time outside it. So only spans that lie wholly in a stretch count; if
        there are none, all that overlap do, weighted by their overlap. If the meter has no span of the stretches yet,
        the latest one counts, if the stretches end soon after it.

        Args:
            stretches: where each begins and ends on the clock of ``time.perf_counter``, in seconds.
        """
        since = min((began for began, _ in stretches), default=0.0)
        with self._lock:
            late = self._spans.since(since)
        overlaps = [(span, span.devices * sum(span.overlap(*stretch) for stretch in stretches)) for span in late]
        whole = [
            (span, span.devices * span.seconds)
            for span in late
            if any(began <= span.began and span.ended <= ended for began, ended in stretches)
        ]
        counted = whole or overlaps
        seconds = sum(weight for _, weight in counted)
        if seconds <= 0:
            return self._just_before(since, max((ended for _, ended in stretches), default=since))
        return sum(span.utilization * weight for span, weight in counted) / seconds

    def _just_before(self, since: float, until: float) -> float | None:
        reach = _FRESH_PERIODS * self.period
        with self._lock:
            latest = self._spans.latest
        # If there was no other span for longer, the driver is gone.
        if latest is None or not until - reach <= latest.ended <= since:
            return None
        return latest.utilization

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
        # The lock is not held while the meter is asked: a slow driver must not hold up `mean`.
        spans = self._meter.spans()
        with self._lock:
            self._spans.add(spans)
