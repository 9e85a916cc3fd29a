"""A short stretch of training, what was measured in it, and what a search looks at."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from autopipe.errors import ArgumentError
from autopipe.telemetry import Sampler, StallCounter, StallReading

__all__ = ["OBJECTIVES", "Window", "WindowMeter", "pick_objective"]


@dataclass(frozen=True)
class Window:
    """Some steps in a row.

    Attributes:
        steps: batches consumed.
        seconds: wall time.
        waiting_seconds: the part of it in which the consumer waited for a batch.
        gpu: mean utilization of the GPUs in use, 0 to 1; ``None`` where it cannot be measured.
    """

    steps: int
    seconds: float
    waiting_seconds: float
    gpu: float | None = None

    @property
    def busy(self) -> float:
        """The share of step time not spent waiting for data, 0 to 1."""
        return min(max(1.0 - self.waiting_seconds / self.seconds, 0.0), 1.0)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


OBJECTIVES: dict[str, Callable[[Window], float]] = {
    "busy": lambda window: window.busy,
    "gpu": lambda window: window.busy if window.gpu is None else window.gpu,
    "rate": lambda window: window.rate,
}
"""What a search may raise, by name; ``gpu`` falls back to ``busy`` in a window without a GPU reading."""


def pick_objective(name: str, first: Window) -> str:
    """Return the objective that ``name`` means: ``"auto"`` is the GPU's utilization where a window has one.

    Raises:
        ArgumentError: if there is no such objective.

    >>> pick_objective("auto", Window(10, 1.0, 0.4))
    'busy'
    """
    if name == "auto":
        return "busy" if first.gpu is None else "gpu"
    if name not in OBJECTIVES:
        raise ArgumentError(f"objective must be auto, {', '.join(OBJECTIVES)}, but got {name!r}.")
    return name


class WindowMeter:
    """Cuts a training run into windows. Steps just after a change are left out of them.

    Args:
        least_seconds: a window lasts at least so long,
        least_steps: and has at least so many steps.
        skipped_steps: steps not counted after :meth:`restart`, while buffers made before it drain.
    """

    def __init__(self, least_seconds: float = 0.3, least_steps: int = 8, skipped_steps: int = 3) -> None:
        self.least_seconds = least_seconds
        self.least_steps = least_steps
        self.skipped_steps = skipped_steps
        self.restart()

    def restart(self) -> None:
        """Forget the window under way."""
        self._to_skip = self.skipped_steps
        self._open: tuple[StallCounter, float, StallReading, int] | None = None
        self._steps = 0

    def step(self, stall: StallCounter, gpu: Sampler | None) -> Window | None:
        """Count one step that has ended; return the window when that completes it."""
        if self._open is not None and self._open[0] is not stall:
            self.restart()
        if self._open is None:
            self._to_skip -= 1
            if self._to_skip <= 0:
                self._begin(stall, gpu)
            return None
        self._steps += 1
        _, began, waited, mark = self._open
        seconds = time.perf_counter() - began
        if self._steps < self.least_steps or seconds < self.least_seconds:
            return None
        now = stall.read()
        window = Window(
            steps=now.batches - waited.batches,
            seconds=seconds,
            waiting_seconds=now.waiting_seconds - waited.waiting_seconds,
            gpu=gpu.mean(mark) if gpu else None,
        )
        self._begin(stall, gpu)
        return window

    def _begin(self, stall: StallCounter, gpu: Sampler | None) -> None:
        self._steps = 0
        self._open = (stall, time.perf_counter(), stall.read(), gpu.mark() if gpu else 0)
