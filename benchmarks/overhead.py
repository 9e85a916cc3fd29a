"""What the callbacks cost where there is nothing to gain: the best pipeline by hand, and input that costs nothing."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner
from autopipe.runtime.readings import Reading, observe, stop_observing
from autopipe.telemetry import TelemetryWarning
from benchmarks.cases._base import Case
from benchmarks.consumers import BatchInMemory, compiled
from benchmarks.measuring import Ratio
from benchmarks.relay import relay

__all__ = ["AGAIN", "CALLBACKS", "FREE", "MONITOR", "PLAIN", "SETTLED", "TUNER", "OverheadResult", "measure_overhead"]

PLAIN, AGAIN = "no callback", "no callback, again"
MONITOR, SETTLED, TUNER = "PipelineMonitor", "PipelineTuner, settled", "PipelineTuner, searching"
CALLBACKS: Mapping[str, Callable[[], list[Any]]] = {
    PLAIN: list,
    AGAIN: list,
    MONITOR: lambda: [PipelineMonitor()],
    SETTLED: lambda: [PipelineTuner(trials=0, verbose=0)],
    TUNER: lambda: [PipelineTuner(verbose=0, seed=0)],
}
FREE = "free input"
# What an iterator costs counts once in an epoch; those of the cases are as short as a first try of a user.
_EPOCHS_IN_ONE = 10
_MANY_EPOCHS = 10**6
# Noise comes in stretches: many short turns tell more than few long ones.
_METERED_EPOCHS_IN_ROTATION = 200
_SECONDS_IN_TURN = 0.5


@dataclass(frozen=True)
class OverheadResult:
    """Training from one pipeline, with each callback and with none.

    Attributes:
        letter, name: the case whose model it is.
        pipeline: ``"best"``, or :data:`FREE`.
        steps: in an epoch.
        rates: steps per second of a whole ``fit``, by callback, one for each round, in places that are equally fast.
        shares: of the time of that ``fit`` from its second epoch on, what the methods of the callback took beyond
            those of one that does nothing, and what was lost in trials that were slower than what they were compared
            with.
        meter_seconds: what the meter of the waiting, and making its iterators, adds to a batch.
    """

    letter: str
    name: str
    pipeline: str
    steps: int
    rates: Mapping[str, tuple[float, ...]]
    shares: Mapping[str, tuple[float, ...]]
    meter_seconds: float

    @property
    def step_seconds(self) -> float:
        """The fastest step without a callback."""
        return 1.0 / max(self.rates[PLAIN])

    def taken(self, callback: str) -> float:
        """Return the share of a step that the callback takes, and the meter."""
        return statistics.median(self.shares[callback]) + self.meter_seconds / self.step_seconds

    def ratio(self, callback: str) -> Ratio:
        """Return how many times as many steps there are as without a callback, round by round.

        Two equal trainings without one, which are less uncertain than one; those are compared with each other.
        """
        without = (PLAIN,) if callback == AGAIN else (PLAIN, AGAIN)
        rounds = zip(*(self.rates[each] for each in without if each in self.rates), strict=True)
        pairs = zip(self.rates[callback], map(statistics.geometric_mean, rounds), strict=True)
        return Ratio.around_median([ours / theirs for ours, theirs in pairs])


def measure_overhead(
    case: Case, folder: Path, *, rotations: int, seconds: float, on_round: Callable[[str], None] = lambda number: None
) -> list[OverheadResult]:
    """Train in turn with each callback: from the case's best pipeline, then long epochs of a batch in memory.

    All go through ``optimize()`` without rules. In each round everyone has a ``fit`` of its own, and they train in
    turn, some epochs each; the first round is not counted. Of models and datasets that are alike one may be faster,
    where it lies in memory: each callback has each of these places once in a rotation, and what a place is faster is
    taken out.

    Args:
        case: a job that there is a model for.
        folder: an empty folder for its data.
        rotations: each has as many rounds as there are callbacks.
        seconds: how long a ``fit`` lasts; an epoch under way is finished.
        on_round: told of each round.
    """
    data = case.make_data(folder)
    memory = BatchInMemory.of(case, data)
    models = [compiled(case.name, memory) for _ in CALLBACKS]
    results = []
    for pipeline, epochs, make in (
        ("best", 1, lambda: case.best(data)),
        (FREE, _EPOCHS_IN_ONE, lambda: memory.free(_EPOCHS_IN_ONE)),
    ):
        meter_seconds = _seconds_of_meter(memory.free(epochs), rotations)
        rates, shares = _trained(models, make, rotations, seconds, on_round)
        steps = epochs * memory.steps
        results.append(OverheadResult(case.letter, case.name, pipeline, steps, rates, shares, meter_seconds))
    return results


def _trained(
    models: Sequence[Any], make: Callable[[], Any], rotations: int, seconds: float, on_round: Callable[[str], None]
) -> tuple[Mapping[str, tuple[float, ...]], Mapping[str, tuple[float, ...]]]:
    """Return the rates, and the shares of the time that the callbacks took, by callback."""
    datasets = [autopipe.optimize(make(), rules=[]) for _ in models]
    knobs = datasets[0].knobs
    rounds = rotations * len(CALLBACKS)
    rates: list[dict[str, float]] = []
    shares: list[dict[str, float]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TelemetryWarning)
        # Keras says so of every pipeline whose length it does not know, such as one of TFRecord files.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        for number in range(-1, rounds):
            on_round("first" if number < 0 else f"{number + 1} of {rounds}")
            fits = {
                name: _Fit(model, dataset, CALLBACKS[name](), seconds if number >= 0 else 0.0)
                for name, model, dataset in zip(_turned(list(CALLBACKS), number), models, datasets, strict=True)
            }
            ended = relay(fits, seed=number + 1)
            if number >= 0:
                rates.append({name: ended[name].rate for name in fits})
                shares.append({name: ended[name].share for name in fits})
            for dataset in datasets:
                dataset.retune(knobs)
    return _by_callback(in_equal_places(rates)), _by_callback(shares)


def _turned(names: Sequence[str], number: int) -> list[str]:
    """Return the names in the places of a round; over as many rounds as there are names, each has each place once.

    >>> _turned(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    first = number % len(names)
    return [*names[first:], *names[:first]]


def in_equal_places(rounds: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Divide rates by what the place they come from is faster than the others, over rounds.

    Args:
        rounds: rates by name, in the order of the places; everyone has each of them equally often.

    >>> for rates in in_equal_places([{"a": 4.0, "b": 2.0}, {"b": 8.0, "a": 1.0}]):
    ...     print({name: round(rate, 3) for name, rate in rates.items()})
    {'a': 2.0, 'b': 4.0}
    {'b': 4.0, 'a': 2.0}
    """
    mean = statistics.geometric_mean
    relative = [[rate / mean(each.values()) for rate in each.values()] for each in rounds]
    faster = [mean(place) for place in zip(*relative, strict=True)]
    return [{name: rate / factor for (name, rate), factor in zip(each.items(), faster, strict=True)} for each in rounds]


def _by_callback(rounds: Sequence[Mapping[str, float]]) -> Mapping[str, tuple[float, ...]]:
    return {name: tuple(each[name] for each in rounds) for name in CALLBACKS}


class _Fit:
    """Training that lets others have their turn between two epochs."""

    def __init__(self, model: Any, dataset: Any, callbacks: Sequence[Any], seconds: float) -> None:
        self._model = model
        self._dataset = dataset
        self._callbacks = [_Timed(callback) for callback in callbacks]
        # The clock takes microseconds itself in the middle of training.
        self._idle = _Timed(keras.callbacks.Callback())
        self._seconds = seconds

    def __call__(self, pass_on: Callable[[], None]) -> _Fit:
        self._clock = _Clock(self._seconds, pass_on)
        timed = [each.callback for each in (*self._callbacks, self._idle)]
        self._model.fit(self._dataset, epochs=_MANY_EPOCHS, verbose=0, shuffle=False, callbacks=[*timed, self._clock])
        self._clock.stop()
        return self

    @property
    def rate(self) -> float:
        """Steps per second of its own time, from before the first to after the last."""
        return self._clock.steps / self._clock.seconds

    @property
    def share(self) -> float:
        """The share of its time from the second epoch on that the callbacks took."""
        taken = sum(each.seconds - self._idle.seconds + each.seconds_lost_in_trials for each in self._callbacks)
        return taken / self._clock.later_seconds


def _seconds_of_meter(dataset: Any, rotations: int) -> float:
    """Return what a batch of free input takes more when somebody observes it; epochs of the two alternate.

    That is more than the meter: an iterator over a metered pipeline takes longer to make, in every epoch.
    """
    read = autopipe.optimize(dataset, rules=[])
    more: list[float] = []
    observer = _Nobody()
    for _ in range(rotations * _METERED_EPOCHS_IN_ROTATION):
        plain = _seconds_per_batch(read)
        observe(observer)
        more.append(_seconds_per_batch(read) - plain)
        stop_observing(observer)
    return max(statistics.median(more), 0.0)


def _seconds_per_batch(dataset: Any) -> float:
    began = time.perf_counter()
    batches = sum(1 for _ in dataset)
    return (time.perf_counter() - began) / batches


class _Nobody:
    """Has iterators metered, and looks at nothing."""

    def reading_started(self, reading: Reading) -> None:
        pass


class _Timed:
    """A callback that adds up how long its methods take in training, from the second epoch on."""

    _METHODS = ("on_epoch_begin", "on_epoch_end", "on_train_batch_begin")

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.seconds = 0.0
        self._epochs = 0
        for name in self._METHODS:
            setattr(callback, name, self._adding(getattr(callback, name)))

    @property
    def seconds_lost_in_trials(self) -> float:
        """What was lost beside the time in methods, in which the swaps are."""
        search = getattr(self.callback, "search", None)
        return 0.0 if search is None else max(self.callback.lost_seconds - search.swap_seconds, 0.0)

    def _adding(self, method: Callable[..., None]) -> Callable[..., None]:
        def timed(*given: Any, **named: Any) -> None:
            began = time.perf_counter()
            method(*given, **named)
            self._epochs += method.__name__ == "on_epoch_begin"
            if self._epochs > 1:
                self.seconds += time.perf_counter() - began

        return timed


class _Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Counts steps and their time, and ends training with the epoch in which it is up, but not with the first.

    Args:
        least: seconds that training lasts.
        pass_on: to be called between two epochs, and takes time that does not count.
    """

    def __init__(self, least: float, pass_on: Callable[[], None]) -> None:
        super().__init__()
        self._least = least
        self._pass_on = pass_on
        self.steps = 0
        self.seconds = self._first_seconds = 0.0
        self._began = time.perf_counter()

    @property
    def later_seconds(self) -> float:
        """What the epochs after the first took."""
        return self.seconds - self._first_seconds

    def stop(self) -> None:
        """Count until now."""
        self.seconds += time.perf_counter() - self._began

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.steps += 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        turn = time.perf_counter() - self._began
        self.model.stop_training = epoch > 0 and self.seconds + turn > self._least
        if not epoch:
            self._first_seconds = turn
        if turn < _SECONDS_IN_TURN or self.model.stop_training:
            return
        self.stop()
        self._pass_on()
        self._began = time.perf_counter()
