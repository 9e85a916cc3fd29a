"""What both callbacks do: follow the dataset that ``fit`` reads, and measure each epoch."""

from __future__ import annotations

import time
import warnings
from typing import Any

import keras

from autopipe.runtime import Reading, observe, stop_observing
from autopipe.telemetry import GpuMeter, Sampler

__all__ = ["WatchingCallback"]


class WatchingCallback(keras.callbacks.Callback):
    """Knows which optimized dataset ``fit`` is reading, and puts its input stall into the epoch's logs.

    ``input_stall`` is the share of the epoch spent waiting for data, 0 to 1, and ``gpu_utilization`` the mean of the
    GPUs in use, 0 to 1. Where one cannot be measured it is not in the logs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reset()

    def _reset(self) -> None:
        self._reading: Reading | None = None
        self._readings: list[Reading] = []
        self._testing = False
        self._gpu: Sampler | None = None
        self._meter: GpuMeter | None = None
        self._epoch_start = (0.0, 0.0, 0)
        self._warned = False

    def reading_started(self, reading: Reading) -> None:
        """Take note of an iterator over an optimized dataset; those of ``evaluate`` are not the training's."""
        if not self._testing:
            self._reading = reading
            self._readings.append(reading)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Start to listen and to sample the GPU."""
        self._close()
        self._reset()
        self._meter = GpuMeter()
        if self._meter.read() is not None:
            self._gpu = Sampler(self._meter)
            self._gpu.start()
        observe(self)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Look away while a validation dataset is read."""
        self._testing = True

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Look at training again."""
        self._testing = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Mark where the epoch begins."""
        self._epoch_start = (time.perf_counter(), self._waited(), self._gpu.mark() if self._gpu else 0)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Put the epoch's figures into its logs."""
        self._warn_if_unseen()
        if logs is None or self._reading is None:
            return
        began, waited_before, mark = self._epoch_start
        logs["input_stall"] = min((self._waited() - waited_before) / (time.perf_counter() - began), 1.0)
        gpu = self._gpu.mean(mark) if self._gpu else None
        if gpu is not None:
            logs["gpu_utilization"] = gpu

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Stop listening."""
        self._close()

    def _waited(self) -> float:
        """Return the seconds waited in this ``fit``: Keras makes an iterator, or two, for every epoch."""
        return sum(reading.stall.read().waiting_seconds for reading in self._readings if reading.stall)

    def _close(self) -> None:
        stop_observing(self)
        if self._gpu is not None:
            self._gpu.stop()
        if self._meter is not None:
            self._meter.close()
        self._gpu = self._meter = None

    def _warn_if_unseen(self) -> None:
        if self._reading is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} follows a dataset that autopipe.optimize() returned, but fit() reads none. "
                "Pass the optimized dataset itself to fit(), with no transformation, class_weight or "
                "distribution strategy after it.",
                stacklevel=2,
            )
