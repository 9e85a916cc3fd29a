"""What both callbacks do: follow the dataset that ``fit`` reads, and measure each epoch."""

from __future__ import annotations

import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import keras

from autopipe.callbacks._messages import no_elements, outside_loop, unseen, unstepped
from autopipe.callbacks._trained_on import TrainedOn, reads_the_same
from autopipe.planning.costs.profile import Stretch
from autopipe.planning.costs.profiling import wait_for_looks
from autopipe.planning.memory.machine import Machine
from autopipe.runtime.readings import Reading, observe, observers, stop_observing
from autopipe.telemetry import GpuMeter, Sampler, StallReading
from autopipe.telemetry.backend import computes_on_gpu

__all__ = ["WatchingCallback"]

_Watching = TypeVar("_Watching", bound="WatchingCallback")
# More than any loop has: the number of epochs of a custom loop is unknown.
_MANY_EPOCHS = 10**9
# Libraries that may compute on a GPU without Keras.
_OTHERS = frozenset({"jax", "torch"})
# When the second step begins, one has ended.
_STEPS_TO_TELL = 2


@dataclass(frozen=True)
class _Moment:
    """Both clocks, and the batches and waiting of the datasets until then."""

    seconds: float
    cpu_seconds: float
    taken: StallReading

    def until(self, later: _Moment) -> Stretch:
        """Return what was read in between."""
        batches = later.taken.batches - self.taken.batches
        return Stretch(batches, later.seconds - self.seconds, later.cpu_seconds - self.cpu_seconds)


class WatchingCallback(keras.callbacks.Callback):
    """Knows which optimized dataset ``fit`` is reading, and puts its input stall into the epoch's logs.

    ``input_stall`` is the share of the epoch spent waiting for data, 0 to 1, ``gpu_utilization`` the mean of the GPUs
    in use, ``host_utilization`` the share of its cores that this process keeps busy, and ``steps_per_second`` counts
    training steps, with what happens between them. What cannot be measured is not in the logs, and the time in which
    Keras validates does not count.

    In a custom training loop it is a context manager: it counts an iterator as an epoch, and a call of :meth:`step` as
    a training step. A dataset of which no step is reported counts as a validation dataset.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_loop = False
        self._reset()

    def __deepcopy__(self: _Watching, memo: dict[int, Any]) -> _Watching:
        """Return one with the same arguments that has seen no training: what it saw holds graphs and threads."""
        made = copy(self)
        made._in_loop = False
        made._reset()
        made.set_model(None)
        return made

    def __enter__(self: _Watching) -> _Watching:
        self.set_params({"epochs": _MANY_EPOCHS})
        self._in_loop = True
        self.on_train_begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_epoch_of_loop()
        if kind is None:
            self._warn_if_unstepped()
        self._in_loop = False
        self.on_train_end()

    def step(self) -> None:
        """Note that a training step has ended; only in a custom training loop, since Keras reports steps by itself."""
        if not self._in_loop:
            self._warn_outside_loop()
            return
        if self._unstepped:
            self._first_step_ended()
        self._step_ended()

    def _reset(self) -> None:
        self._reading: Reading | None = None
        self._readings: list[Reading] = []
        self._over = StallReading(0.0, 0)
        # The thread in which ``fit``, or the loop, runs.
        self._thread = threading.get_ident()
        self._test_began: _Moment | None = None
        self._gpu: Sampler | None = None
        self._let_go_of_gpu: Callable[[], Any] | None = None
        self._epoch_parts: list[tuple[_Moment, _Moment]] = []
        self._part_began = _Moment(0.0, 0.0, StallReading(0.0, 0))
        self._cores = Machine.here().cores
        self._warned_unseen: bool = False
        self._step_begun = False
        self._epochs_of_loop = 0
        self._in_epoch_of_loop = False
        # The iterators of a loop, and when they were made, until it reports a step.
        self._unstepped: list[tuple[Reading, _Moment]] = []
        # Other iterators that were made within ``fit``, until the first step has ended.
        self._beside: list[Reading] = []
        self._at_first_step: dict[Reading, int] = {}
        self._steps_to_tell = _STEPS_TO_TELL
        self._trained_on = TrainedOn()

    def reading_started(self, reading: Reading) -> None:
        """Follow an iterator over an optimized dataset; those of ``evaluate`` are not the training's."""
        if self._test_began is not None or self._is_of_another(reading):
            return
        if self._in_loop:
            self._started_in_loop(reading)
        elif not self._is_beside_training(reading) and self._trained_on.may_be(reading):
            self._follow(reading)
        elif self._steps_to_tell and reading.taker.thread == self._thread:
            self._beside = [*filter(_lives, self._beside), reading]

    def _started_in_loop(self, reading: Reading) -> None:
        if self._trained_on and self._is_beside_training(reading):
            return
        self._unstepped = [each for each in self._unstepped if _lives(each[0])]
        self._unstepped.append((reading, self._now()))
        if not self._trained_on.may_be(reading):
            self._end_epoch_of_loop()
            return
        if not self._trained_on:
            self._forget_followed()
        self._follow(reading)

    def _first_step_ended(self) -> None:
        """Note what is trained on, and follow it from its beginning if another iterator was followed."""
        unstepped, self._unstepped = self._unstepped, []
        read = [each for each in unstepped if _lives(each[0]) and _batches(each[0])]
        reading, began = (read or unstepped)[-1]
        if reading is not self._reading:
            if not _lives(reading):
                return
            if not self._trained_on:
                self._forget_followed()
            self._follow(reading)
            self._part_began = began
        self._trained_on.add(reading)

    def _first_step_of_fit_begins(self) -> None:
        self._at_first_step = {reading: _batches(reading) for reading in self._made_for_epoch()}

    def _made_for_epoch(self) -> list[Reading]:
        return [self._reading, *self._beside] if self._reading is not None else self._beside

    def _first_step_of_fit_ended(self) -> None:
        """Note what is trained on, and follow it if another iterator was made just before."""
        before, made = self._at_first_step, self._made_for_epoch()
        self._at_first_step, self._beside = {}, []
        gave = [reading for reading in before if _batches(reading) > before[reading]]
        # With JAX, the iterator is made within the step; with PyTorch, the step gets its batch before it begins.
        later = [reading for reading in made if reading not in before and _batches(reading)]
        read = gave or later or [reading for reading in before if _lives(reading) and _batches(reading)]
        if not read:
            return
        # Keras makes the training's iterator last.
        trained_on = read[-1]
        self._trained_on.add(trained_on)
        if self._reading is None or not reads_the_same(trained_on, self._reading):
            self._forget_followed()
            self._follow(trained_on)
            self._step_begun = True

    def _forget_followed(self) -> None:
        """Leave out an iterator that is not trained on, as if it had not been followed."""
        followed, self._reading = self._reading, None
        if followed in self._readings:
            self._readings.remove(followed)
            self._over = _sum(self._over, [followed])
        if self._in_epoch_of_loop:
            self._in_epoch_of_loop = False
            self._epochs_of_loop -= 1

    def _is_of_another(self, reading: Reading) -> bool:
        """Return whether an iterator was made in the thread of another callback's training."""
        thread = reading.taker.thread
        trainings = {each._thread for each in observers() if isinstance(each, WatchingCallback)}
        return thread != self._thread and thread in trainings

    def _is_beside_training(self, reading: Reading) -> bool:
        """Return whether an iterator is read during an epoch, from another dataset or in another thread."""
        followed = self._reading
        if followed is None or followed.iterator() is None:
            return False
        left = followed.taker.thread == self._thread != reading.taker.thread
        return left or not reads_the_same(followed, reading)

    def _follow(self, reading: Reading) -> None:
        self._end_epoch_of_loop()
        self._reading = reading
        self._readings.append(reading)
        if self._in_loop:
            self._in_epoch_of_loop = True
            self._epochs_of_loop += 1
            self.on_epoch_begin(self._epochs_of_loop - 1)

    def _end_epoch_of_loop(self) -> None:
        if self._in_epoch_of_loop:
            self._in_epoch_of_loop = False
            self.on_epoch_end(self._epochs_of_loop - 1, {})

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Start to listen and to sample the GPU."""
        self._close()
        self._reset()
        self._sample_gpu()
        observe(self)

    def _sample_gpu(self) -> None:
        """Begin to sample the GPUs, if training runs on any; in a custom loop, another library may compute."""
        others = self._in_loop and not _OTHERS.isdisjoint(sys.modules)
        if not others and not computes_on_gpu():
            return
        meter = GpuMeter()
        if meter.read() is None:
            meter.close()
            return
        self._gpu = Sampler(meter)
        self._gpu.start()
        # A callback is not notified when training is interrupted.
        self._let_go_of_gpu = weakref.finalize(self, _let_go, self._gpu, meter)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Stop measuring while a validation dataset is read."""
        if self._steps_to_tell == 1:
            self._return_to_epoch()
        self._test_began = self._now()
        self._epoch_parts.append((self._part_began, self._test_began))

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Measure training again."""
        began, self._test_began, self._part_began = self._test_began, None, self._now()
        if began is not None:
            self._looked_away(began.until(self._part_began))

    def _looked_away(self, stretch: Stretch) -> None:
        """Leave out a stretch of an epoch."""

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Note that the step before has ended.

        With JAX and PyTorch, Keras may run ``on_train_batch_end`` of callbacks on another thread, beside the next step.
        This must not run there, so it is done when the next step begins.
        """
        self._return_to_epoch()
        if self._step_begun:
            self._step_ended()
            return
        self._step_begun = True
        self._steps_begin()

    def _return_to_epoch(self) -> None:
        """Follow the iterator of the epoch again if another iterator over the same dataset was read meanwhile."""
        if self._in_loop:
            return
        wait_for_looks()
        if self._steps_to_tell:
            self._steps_to_tell -= 1
            if self._steps_to_tell:
                self._first_step_of_fit_begins()
            else:
                self._first_step_of_fit_ended()
        if self._reading is None or _lives(self._reading):
            return
        living = [*filter(_lives, self._readings)]
        if not living:
            return
        self._reading = living[-1]
        self._readings = self._readings[: self._readings.index(self._reading) + 1]
        self._returned(self._reading)

    def _returned(self, reading: Reading) -> None:
        """Note that an iterator is followed again."""

    def _steps_begin(self) -> None:
        """Prepare the first step of an epoch within ``fit``, when its iterator exists."""

    def _step_ended(self) -> None:
        """Act between two steps; Keras does not report the end of an epoch's last step."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Mark where the epoch begins."""
        self._step_begun = False
        self._steps_to_tell = 0 if self._trained_on else _STEPS_TO_TELL
        self._epoch_parts = []
        self._part_began = self._now()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Put the epoch's figures into its logs."""
        self._return_to_epoch()
        self._warn_if_unseen()
        if logs is None or self._reading is None or self._is_unread:
            return
        parts = [*self._epoch_parts, (self._part_began, self._now())]
        stretch = Stretch.together(began.until(ended) for began, ended in parts)
        waited = sum(ended.taken.waiting_seconds - began.taken.waiting_seconds for began, ended in parts)
        logs["input_stall"] = min(waited / stretch.seconds, 1.0)
        logs["steps_per_second"] = stretch.rate
        self._epoch_ended(stretch)
        logs["host_utilization"] = min(stretch.cores / self._cores, 1.0)
        gpu = self._gpu.mean(*((began.seconds, ended.seconds) for began, ended in parts)) if self._gpu else None
        if gpu is not None:
            logs["gpu_utilization"] = gpu

    def _epoch_ended(self, stretch: Stretch) -> None:
        """Note what was read in an epoch."""

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Stop listening."""
        self._close()
        self._beside, self._at_first_step, self._unstepped = [], {}, []

    def _now(self) -> _Moment:
        return _Moment(time.perf_counter(), time.process_time(), self._taken())

    def _taken(self) -> StallReading:
        """Return the waiting and the batches of this ``fit``: Keras makes an iterator, or two, for every epoch.

        Only the sums are kept of iterators that are gone: a long training makes thousands.
        """
        gone = [reading for reading in self._readings if not _lives(reading)]
        self._readings = [reading for reading in self._readings if reading not in gone]
        self._over = _sum(self._over, gone)
        return _sum(self._over, self._readings)

    def _close(self) -> None:
        stop_observing(self)
        if self._let_go_of_gpu is not None:
            self._let_go_of_gpu()
        self._gpu = self._let_go_of_gpu = None

    def _warn_outside_loop(self) -> None:
        self._warn_once(outside_loop)

    def _warn_if_unstepped(self) -> None:
        if self._reading is None or self._trained_on:
            self._warn_if_unseen()
        else:
            self._warn_once(no_elements if self._gave_none else unstepped)

    @property
    def _is_unread(self) -> bool:
        """Whether ``fit`` trains on something else than what is followed."""
        return not self._in_loop and not self._trained_on

    @property
    def _gave_none(self) -> bool:
        """Whether neither the followed iterator nor earlier ones gave any elements."""
        return self._reading is not None and self._reading.stall is not None and not self._taken().batches

    def _warn_if_unseen(self) -> None:
        if self._reading is None or self._is_unread:
            self._warn_once(no_elements if self._gave_none else unseen)

    def _warn_once(self, message: Callable[[str], str]) -> None:
        if not self._warned_unseen:
            self._warned_unseen = True
            warnings.warn(message(type(self).__name__), stacklevel=4)


def _lives(reading: Reading) -> bool:
    return reading.iterator() is not None


def _batches(reading: Reading) -> int:
    return reading.stall.read().batches if reading.stall else 0


def _let_go(gpu: Sampler, meter: GpuMeter) -> None:
    gpu.stop()
    meter.close()


def _sum(start: StallReading, readings: list[Reading]) -> StallReading:
    seen = [start, *(reading.stall.read() for reading in readings if reading.stall)]
    return StallReading(sum(each.waiting_seconds for each in seen), sum(each.batches for each in seen))
