"""Training runs: what an epoch of Keras training takes with each pipeline, beside input that costs nothing."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

import autopipe
from autopipe.telemetry import GpuMeter, TelemetryWarning
from benchmarks.cases._base import Case
from benchmarks.consumers import BatchInMemory, compiled
from benchmarks.measuring import REFERENCE, Ratio, reordered
from benchmarks.models import MODELS

__all__ = ["FREE", "TRAINED", "TUNED", "TrainingResult", "TuningRun", "VariantTraining", "is_trained", "train_all"]

TUNED = "autopipe(naive) + tuner"
FREE = "free input"
TRAINED = ("naive", "expert", "autopipe(naive)", TUNED, FREE)

_MANY_EPOCHS = 100_000
# The driver's utilization is a mean over up to a second: that of a turn's first second belongs to the turn before.
_DRIVER_SECONDS = 1.0


@dataclass(frozen=True)
class TuningRun:
    """The ``fit`` in which the tuner worked.

    Attributes:
        seconds: all its epochs.
        epoch_seconds: the median of its epochs after the first; the first where there is no other.
        trials: challengers measured.
        kept: those that became the incumbent.
        trial_seconds: time in the challengers' windows.
    """

    seconds: float
    epoch_seconds: float
    trials: int
    kept: int
    trial_seconds: float


@dataclass(frozen=True)
class VariantTraining:
    """The model, trained from one pipeline.

    Attributes:
        preparing_seconds: what ``optimize()`` took; 0 for a pipeline written by hand.
        first_epoch_seconds: the first epoch, in which caches fill. The model was compiled before it.
        epoch_seconds: the mean epoch of each turn after it.
        busy: the accelerator's busy share in each turn, 0 to 1.
        tuning: the ``fit`` before the turns, where the tuner was in it.
    """

    preparing_seconds: float
    first_epoch_seconds: float
    epoch_seconds: tuple[float, ...]
    busy: tuple[float, ...]
    tuning: TuningRun | None = None


@dataclass(frozen=True)
class TrainingResult:
    """The training runs of one case, measured in the same rounds.

    Attributes:
        letter: the letter of the case.
        name: its name.
        steps: steps in an epoch.
        gpu: the NVIDIA GPU whose utilization the busy share is; ``None`` where it is the share of the time in which
            the model did not wait for data.
        variants: the runs, by variant.
    """

    letter: str
    name: str
    steps: int
    gpu: str | None
    variants: dict[str, VariantTraining]

    def ratio(self, variant: str, reference: str = REFERENCE) -> Ratio:
        """Return how many times as fast a variant trains, round by round."""
        pairs = zip(self.variants[variant].epoch_seconds, self.variants[reference].epoch_seconds, strict=True)
        return Ratio.of([theirs / ours for ours, theirs in pairs])


def is_trained(case: Case) -> bool:
    """Return whether there is a model for a case."""
    return case.name in MODELS


def train_all(
    case: Case,
    folder: Path,
    *,
    rounds: int,
    least_seconds: float,
    tuning_seconds: float,
    on_epoch: Callable[[str], None] = lambda variant: None,
) -> TrainingResult:
    """Train a model from each pipeline: a first epoch each, then an epoch of each in turn.

    It is one model: a step takes as long whatever it has learnt. All pipelines go through ``optimize()``, those
    written by hand without rules, which leaves them as they are: so one meter sees the waiting in all of them.

    Args:
        case: a job that :func:`is_trained`.
        folder: an empty folder for its data.
        rounds: how often each variant takes its turn after its first epoch.
        least_seconds: a turn is so many epochs that it lasts so long.
        tuning_seconds: how long the tuner may work; an epoch under way is finished.
        on_epoch: told of the variant before each of its turns.
    """
    data = case.make_data(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TelemetryWarning)
        # Keras says so of every pipeline whose length it does not know, such as one of TFRecord files.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        gpu = _gpu_name()
        memory = BatchInMemory.of(case, data)
        model = compiled(case.name, memory, large=gpu is not None)
        trainees: dict[str, _Trainee] = {}
        tuning: dict[str, TuningRun] = {}
        first: dict[str, float] = {}
        for variant in TRAINED:
            on_epoch(variant)
            trainees[variant] = trainee = _Trainee(model, *_prepared(case, variant, data, memory))
            if variant == TUNED:
                first[variant], tuning[variant] = trainee.tune(tuning_seconds)
            else:
                first[variant] = trainee.turn().epoch_seconds
        turns: dict[str, list[_Turn]] = {variant: [] for variant in TRAINED}
        for number in range(rounds):
            for variant in reordered(TRAINED, number):
                on_epoch(variant)
                turns[variant].append(trainees[variant].turn(least_seconds))
    results = {
        variant: VariantTraining(
            preparing_seconds=trainees[variant].preparing_seconds,
            first_epoch_seconds=first[variant],
            epoch_seconds=tuple(turn.epoch_seconds for turn in turns[variant]),
            busy=tuple(turn.busy for turn in turns[variant]),
            tuning=tuning.get(variant),
        )
        for variant in TRAINED
    }
    return TrainingResult(case.letter, case.name, memory.steps, gpu, results)


@dataclass(frozen=True)
class _Epoch:
    began: float
    seconds: float
    stall: float
    gpu: float | None


@dataclass(frozen=True)
class _Turn:
    """Some epochs in a row."""

    epochs: tuple[_Epoch, ...]

    @property
    def epoch_seconds(self) -> float:
        return statistics.fmean(epoch.seconds for epoch in self.epochs)

    @property
    def busy(self) -> float:
        settled = [each for each in self.epochs if each.began - self.epochs[0].began >= _DRIVER_SECONDS]
        gpu = [each.gpu for each in settled or self.epochs[-1:] if each.gpu is not None]
        if gpu:
            return statistics.fmean(gpu)
        seconds = [epoch.seconds for epoch in self.epochs]
        return 1.0 - statistics.fmean((epoch.stall for epoch in self.epochs), seconds)


@dataclass
class _Trainee:
    """A model and the pipeline it is trained from."""

    model: Any
    dataset: Any
    preparing_seconds: float

    def turn(self, least_seconds: float = 0.0) -> _Turn:
        epochs: list[_Epoch] = []
        while not epochs or sum(epoch.seconds for epoch in epochs) < least_seconds:
            epochs += self._fit([autopipe.callbacks.PipelineMonitor()], epochs=1)
        return _Turn(tuple(epochs))

    def tune(self, seconds: float) -> tuple[float, TuningRun]:
        """Train with the tuner, as a user would; return the seconds of the first epoch, and all of it."""
        tuner = autopipe.callbacks.PipelineTuner(verbose=0, seed=0)
        epochs = self._fit([tuner, _StopWhenTuned(tuner, seconds)], _MANY_EPOCHS)
        taken = [epoch.seconds for epoch in epochs]
        trials = tuner.search.trials if tuner.search else []
        return taken[0], TuningRun(
            seconds=sum(taken),
            epoch_seconds=statistics.median(taken[1:] or taken),
            trials=len(trials),
            kept=sum(trial.kept for trial in trials),
            trial_seconds=sum(trial.seconds for trial in trials),
        )

    def _fit(self, callbacks: Sequence[Any], epochs: int) -> list[_Epoch]:
        clock = _Clock()
        # The pipelines shuffle; Keras warns that it does not, unless told so.
        self.model.fit(self.dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[*callbacks, clock])
        return clock.epochs


class _Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes each epoch. It stands behind the callback whose figures it takes from the logs."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[_Epoch] = []

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        seconds = time.perf_counter() - self._began
        logs = logs or {}
        self.epochs.append(_Epoch(self._began, seconds, logs["input_stall"], logs.get("gpu_utilization")))


class _StopWhenTuned(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends training with the epoch in which the search ends, or the time is up."""

    def __init__(self, tuner: Any, seconds: float) -> None:
        super().__init__()
        self._tuner = tuner
        self._end = time.perf_counter() + seconds

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        finished = self._tuner.search is not None and self._tuner.search.finished
        self.model.stop_training = finished or time.perf_counter() > self._end


def _prepared(case: Case, variant: str, data: Any, memory: BatchInMemory) -> tuple[Any, float]:
    """Return the pipeline of a variant, and the seconds ``optimize()`` took where it changes something."""
    if variant == FREE:
        return autopipe.optimize(memory.free(), rules=[]), 0.0
    if not variant.startswith("autopipe"):
        return autopipe.optimize(getattr(case, variant)(data), rules=[]), 0.0
    written = case.naive(data)
    began = time.perf_counter()
    return autopipe.optimize(written), time.perf_counter() - began


def _gpu_name() -> str | None:
    meter = GpuMeter()
    reading = meter.read()
    meter.close()
    return reading.devices[0].name if reading else None
