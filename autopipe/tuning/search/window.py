"""A short stretch of training, what was measured in it, and the objectives of a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace

from autopipe.telemetry import Sampler
from autopipe.telemetry.stall import StallCounter

__all__ = ["OBJECTIVES", "Window", "WindowMeter", "measure_of", "pick_objective"]

# A window has at least this many steps.
_LEAST_STEPS = 8
# This share of a window shows whether the rest is worth waiting for.
_TELLING_SHARE = 0.3
# Steps not counted after a restart or a pause, while buffers made before it drain.
_SKIPPED_STEPS = 3
# The counter is read this often in a window: during training, that takes up to 100 us.
_READS_IN_WINDOW = 10
# In windows with fewer starts of iterators, chance decides which of two neighbours has one more.
_FEWEST_STARTS = 3


@dataclass(frozen=True)
class Window:
    """Some steps in a row.

    Attributes:
        steps: batches consumed.
        seconds: wall time.
        waiting_seconds: the part of it in which the consumer waited for a batch.
        gpu: mean utilization of the GPUs in use, 0 to 1; ``None`` where it cannot be measured.
        start_steps: further batches, with which iterators began; 0 if too few began in the window.
        start_seconds: wall time of those.
    """

    steps: int
    seconds: float
    waiting_seconds: float
    gpu: float | None = None
    start_steps: int = 0
    start_seconds: float = 0.0

    @property
    def busy(self) -> float:
        """The share of step time not spent waiting for data, 0 to 1."""
        return min(max(1.0 - self.waiting_seconds / self.seconds, 0.0), 1.0)

    @property
    def rate(self) -> float:
        """Steps per second, including those with which iterators began."""
        return (self.steps + self.start_steps) / (self.seconds + self.start_seconds)


OBJECTIVES: dict[str, Callable[[Window], float]] = {
    "busy": lambda window: window.busy,
    "gpu": lambda window: window.busy if window.gpu is None else window.gpu,
    "rate": lambda window: window.rate,
}
"""What a search may maximize, by name; ``gpu`` falls back to ``busy`` in a window without a GPU reading."""


def measure_of(objective: str, windows: Iterable[Window]) -> Callable[[Window], float]:
    """Return the function that windows are compared by: the GPU's utilization only if all of them have it.

    >>> with_gpu, without = Window(10, 1.0, 0.4, gpu=0.3), Window(10, 1.0, 0.4)
    >>> [measure_of("gpu", windows)(with_gpu) for windows in ([with_gpu, with_gpu], [with_gpu, without])]
    [0.3, 0.6]
    """
    return OBJECTIVES[pick_objective(objective, *windows)]


def pick_objective(name: str, *windows: Window) -> str:
    """Return the objective that ``name`` means: ``"busy"`` if a window lacks the GPU's utilization.

    >>> pick_objective("auto", Window(10, 1.0, 0.4))
    'busy'
    """
    if name not in ("auto", "gpu"):
        return name
    return "busy" if any(window.gpu is None for window in windows) else "gpu"


class WindowMeter:
    """Cuts a training run into windows. Steps just after a change, or after a pause, are left out.

    The first steps of iterators count for the rate, but not for the waiting: once training is tuned, iterators start
    early, which hides the waiting but not the work.

    Args:
        least_seconds: the least length of a window.
    """

    def __init__(self, least_seconds: float) -> None:
        self.least_seconds = least_seconds
        self.restart()

    def restart(self) -> None:
        """Forget the window under way."""
        self._so_far = _Sums()
        self._stretch: _Stretch | None = None
        self._started: float | None = None
        self._to_skip = _SKIPPED_STEPS

    def pause(self) -> None:
        """Leave out the time until the next step; the window under way goes on after it."""
        if self._stretch is not None:
            self._so_far = self._so_far.with_(self._stretch)
        self._stretch = self._started = None
        self._to_skip = _SKIPPED_STEPS

    def begin_now(self) -> None:
        """Leave out the time since the window under way began, in which no step has ended."""
        if self._stretch is not None:
            self._stretch = self._begin(self._stretch.stall, self._stretch.gpu)

    def start(self) -> None:
        """Pause, and note that a new iterator is read from now on: how fast it starts is part of the rate."""
        self.pause()
        self._started = time.perf_counter()

    def so_far(self) -> Window | None:
        """Return the window under way; ``None`` while it is too short to tell anything."""
        if self._stretch is None or self._stretch.steps < _LEAST_STEPS // 2:
            return None
        so_far = self._so_far.with_(self._stretch).window(self._stretch.gpu)
        return so_far if so_far.steps and so_far.seconds >= _TELLING_SHARE * self.least_seconds else None

    def step(self, stall: StallCounter, gpu: Sampler | None, *, steps: int = 1) -> Window | None:
        """Count steps that have ended, the last of them just now; return the window when that completes it."""
        if self._stretch is not None and self._stretch.stall is not stall:
            self.pause()
        if self._stretch is None:
            self._to_skip -= steps
            if self._to_skip <= 0:
                self._stretch = self._begin(stall, gpu)
                self._so_far = self._so_far.with_start(self._stretch, self._started)
            return None
        self._stretch.look(steps)
        steps, seconds = self._so_far.steps + self._stretch.steps, self._so_far.seconds + self._stretch.seconds
        if steps < _LEAST_STEPS or seconds < self.least_seconds:
            return None
        window = self._so_far.with_(self._stretch).window(gpu)
        if not window.steps:
            # A consumer that reads ahead, say, took the batches before: this window says nothing about the pipeline.
            return None
        self._so_far = _Sums()
        self._stretch = self._begin(stall, gpu)
        return window

    def _begin(self, stall: StallCounter, gpu: Sampler | None) -> _Stretch:
        return _Stretch(stall, gpu, self.least_seconds / _READS_IN_WINDOW)


class _Stretch:
    """Steps in a row from one iterator, up to the last read of its counter; what happened since is unknown.

    Args:
        stall: its counter.
        gpu: samples the GPUs, if there are any.
        seconds_between_reads: the least time between two reads of the counter, except for the first reads: each comes
            twice as late as the one before, since it is unknown how long the iterator lasts.
    """

    def __init__(self, stall: StallCounter, gpu: Sampler | None, seconds_between_reads: float) -> None:
        self.stall = stall
        self.gpu = gpu
        self.steps = self._unread = 0
        self._between = seconds_between_reads
        self.began = self._latest = time.perf_counter()
        self._waited = self._waited_by_now = stall.read()

    def look(self, steps: int) -> None:
        """Note that more steps have ended, the last of them just now."""
        now = time.perf_counter()
        self._unread += steps
        if now - self._latest < min(self._between, self.seconds):
            return
        self.steps, self._unread = self.steps + self._unread, 0
        self._latest = now
        self._waited_by_now = self.stall.read()

    @property
    def batches_before(self) -> int:
        """How many batches the iterator gave before them."""
        return self._waited.batches

    @property
    def seconds(self) -> float:
        """How long they took."""
        return self._latest - self.began

    def sums(self) -> _Sums:
        """Return what was measured in them."""
        return _Sums(
            steps=self.steps,
            batches=self._waited_by_now.batches - self._waited.batches,
            seconds=self.seconds,
            waiting=self._waited_by_now.waiting_seconds - self._waited.waiting_seconds,
            stretches=((self.began, self._latest),),
        )


@dataclass(frozen=True)
class _Sums:
    """What the stretches of a window add up to."""

    steps: int = 0
    batches: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    stretches: tuple[tuple[float, float], ...] = ()
    starts: int = 0
    start_batches: int = 0
    start_seconds: float = 0.0

    def with_start(self, stretch: _Stretch, started: float | None) -> _Sums:
        """Return the sums with what came before a stretch, if it is known when its iterator started."""
        if started is None:
            return self
        batches, seconds = self.start_batches + stretch.batches_before, self.start_seconds + stretch.began - started
        return replace(self, starts=self.starts + 1, start_batches=batches, start_seconds=seconds)

    def with_(self, stretch: _Stretch) -> _Sums:
        return _Sums(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(stretch.sums()), strict=True)))

    def window(self, gpu: Sampler | None) -> Window:
        # Read only now: the driver's samples of a stretch that has just ended come late.
        mean = gpu.mean(*self.stretches) if gpu else None
        start = (self.start_batches, self.start_seconds) if self.starts >= _FEWEST_STARTS else (0, 0.0)
        return Window(self.batches, self.seconds, self.waiting, mean, *start)
