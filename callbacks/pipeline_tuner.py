"""The callback named as this file."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from autopipe.arguments import bytes_or_none, file_to_write, number, whole_number
from autopipe.callbacks._watching import WatchingCallback
from autopipe.errors import ArgumentError
from autopipe.pipeline.build import memory_caches
from autopipe.pipeline.knobs import read_knobs, used_knobs
from autopipe.planning.machine import Machine
from autopipe.planning.plan import Plan
from autopipe.reading import Reading
from autopipe.report.printing import show
from autopipe.runtime import OptimizedDataset
from autopipe.search_spaces import SearchSpace, by_name, default
from autopipe.tuning.memory_guard import MemoryGuard
from autopipe.tuning.next_epoch import NextEpoch
from autopipe.tuning.outcome import in_one_line, measured, trials_of
from autopipe.tuning.search import Search, Trial
from autopipe.tuning.spaces import seeds
from autopipe.tuning.step_counter import StepCounter
from autopipe.tuning.studies import load_optuna, refuse_other_choices, refuse_other_direction
from autopipe.tuning.switch import Switch
from autopipe.tuning.watch import Watch
from autopipe.tuning.window import OBJECTIVES, Window, WindowMeter

__all__ = ["PipelineTuner"]

_MOST_SEARCHES = 4
# A window that only looks whether all is as it was need not be short.
_WATCHING_SECONDS = 2.0
# The first of the driver's samples in a window may be of what ran before, and the latest may not be told yet.
_LEAST_GPU_SAMPLES_IN_WINDOW = 5
_SECONDS_BETWEEN_LOOKS = 0.05
_LEAST_LOOKS_IN_WINDOW = 10
_LEAST_LOOKS_IN_EPOCH = 10
_LEAST_LOOKS_IN_QUIET_EPOCH = 4


class PipelineTuner(WatchingCallback):
    """Tunes the knobs of an optimized dataset while ``fit`` trains from it.

    The pipeline as it stands is the first incumbent. Each challenger that Optuna proposes runs for a short window
    of steps between two windows of the incumbent, and stays only if it is better than both by more than they
    differ, and no slower; one that is far slower is ended early. Where training does not wait for data, smaller
    numbers are tried, and kept if nothing is lost. Every element is still seen exactly once per epoch. When the search
    ends, or ``fit`` does, the best knobs found stay in the dataset, and one line is printed. Should training wait
    again for good later, because another job took the cores, say, the search begins anew.

    Once the best knobs are found, the iterator of each epoch starts before the one before it ends, so that its buffers
    are full when it is its turn.

    A memory cache is filled in the first epoch, which says nothing about the others: with one in the pipeline, and
    more epochs to come, the search begins with the second.

    In a training loop of your own, the tuner is a context manager, and is told of every step with :meth:`step`.

    Args:
        trials: challengers to measure at the most.
        space: what the knobs may be; see ``autopipe.search_spaces``. One of those may be given by its name.
        objective: ``"gpu"`` (utilization), ``"busy"`` (share of step time not spent waiting for data), ``"rate"``
            (steps per second), or ``"auto"``: the GPU where there is one, else ``"busy"``.
        window_seconds: the least length of a window. Where the GPU's utilization counts, it is at least five of the
            spans over which the driver averages that; they last 1/6 to 1 s.
        most_loss: the share of all time that trials may lose, beyond what they won; the next one waits for it. Where
            training waits for data for less than a tenth of the time it is so much less, down to a fifth: there is
            that much less to win. With ``objective="rate"``, and where it is ``math.inf``, it is what it is.
        ram_budget: bytes by which the process may grow while tuning; by default half of what it can still get. A
            challenger that crosses it is taken back at once.
        seed: for Optuna's sampler.
        study: an Optuna study that maximizes: it proposes, and is told; by default one in memory. One whose trials
            chose among other values for the same knobs is left alone, with a warning.
        plan: where to write the plan at the end.
        verbose: 0 prints nothing.
        on_trial: told of each ``autopipe.tuning.search.Trial``.

    Raises:
        ArgumentError: if an argument breaks its law.

    >>> import autopipe, keras, tensorflow as tf
    >>> data = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(64)
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> dataset = autopipe.optimize(data)
    >>> tuner = autopipe.callbacks.PipelineTuner(trials=2, window_seconds=0.01, verbose=0)
    >>> history = model.fit(dataset, verbose=0, callbacks=[tuner])
    >>> sorted(tuner.best) == sorted(tuner.dataset.knobs)
    True
    >>> with autopipe.callbacks.PipelineTuner(trials=2, window_seconds=0.01, verbose=0) as tuner:
    ...     for x, y in dataset:
    ...         loss = model.train_on_batch(x, y)
    ...         tuner.step()
    """

    def __init__(
        self,
        *,
        trials: int = 12,
        space: SearchSpace | str = default,
        objective: str = "auto",
        window_seconds: float = 0.3,
        most_loss: float = 0.01,
        ram_budget: int | None = None,
        seed: int | None = None,
        study: Any = None,
        plan: str | os.PathLike[str] | None = None,
        verbose: int = 1,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> None:
        if objective != "auto" and objective not in OBJECTIVES:
            raise ArgumentError(f"objective must be auto, {', '.join(OBJECTIVES)}, but got {objective!r}.")
        if study is not None and not hasattr(study, "ask"):
            raise ArgumentError(
                f"study must be an Optuna study, but got {study!r}. "
                'Make one with optuna.create_study(direction="maximize").'
            )
        if study is not None:
            refuse_other_direction(study)
        if on_trial is not None and not callable(on_trial):
            raise ArgumentError(f"on_trial must be a function of a trial, but got {on_trial!r}.")
        self.trials = whole_number("trials", trials)
        self.space = space if callable(space) else by_name(space)
        self.objective = objective
        self.window_seconds = number("window_seconds", window_seconds, above=True, finite=True)
        self.most_loss = number("most_loss", most_loss)
        self.ram_budget = bytes_or_none("ram_budget", ram_budget)
        self.seed = None if seed is None else whole_number("seed", seed)
        self.study = study
        self.plan_path = None if plan is None else file_to_write("plan", plan)
        self.verbose = verbose
        self.on_trial = on_trial
        super().__init__()

    def _reset(self) -> None:
        super()._reset()
        self.search: Search | None = None
        self._switch: Switch | None = None
        self.dataset: OptimizedDataset | None = None
        self._searches: list[Search] = []
        self._windows = WindowMeter(self.window_seconds)
        self._guard = MemoryGuard(self.ram_budget)
        self._watch: Watch | None = None
        self._filling = False
        self._cold = True
        self._next_epoch = NextEpoch()
        self._last_epoch = self._epoch_begins = False
        self._memory_is_short = False
        self._steps = StepCounter()
        self._warned_of_another = False

    @property
    def _window_seconds(self) -> float:
        """The least length of a window with the objective in use."""
        if self._gpu is None or self.objective not in ("auto", "gpu"):
            return self.window_seconds
        return max(self.window_seconds, _LEAST_GPU_SAMPLES_IN_WINDOW * self._gpu.period)

    @property
    def _watching_seconds(self) -> float:
        return max(self._window_seconds, _WATCHING_SECONDS)

    @property
    def best(self) -> dict[str, int]:
        """The best knobs found; empty before training."""
        return dict(self.search.incumbent) if self.search else {}

    @property
    def lost_seconds(self) -> float:
        """What searching took so far, in slower windows and in swaps, that training as it was would not have."""
        return math.fsum(search.lost_seconds for search in self._searches)

    @property
    def plan(self) -> Plan | None:
        """The plan of the dataset with the best knobs and what was measured; ``None`` before training."""
        if self.dataset is None or self.search is None:
            return None
        return replace(
            self.dataset.plan, knobs=self.best, machine=asdict(Machine.here()), measured=measured(self._searches)
        )

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Make ready, so that no step waits for it."""
        load_optuna()
        super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Leave out of the windows what happened since the last step: validation, checkpoints, a cold start."""
        super().on_epoch_begin(epoch, logs)
        self._count_steps()
        self._steps.look_at_next()
        # Keras makes an iterator at the end of an epoch too, and throws it away.
        self._next_epoch.offer()
        self._try_out_next()
        self._epoch_begins = True
        self._windows.pause()
        self._last_epoch = epoch + 1 >= (self.params or {}).get("epochs", 1)
        self._filling = self.dataset is None and not self._last_epoch

    def _follow(self, reading: Reading) -> None:
        """Count the steps of the iterator before, which nobody looked at yet; a challenger has this one too."""
        self._count_steps()
        self._steps.look_at_next()
        super()._follow(reading)
        search = self.search if self.dataset is reading.dataset and self._epoch_begins else None
        if search is not None and search.challenging:
            # Somebody else may have taken the one that was to have them. Before buffers fill, a change takes less.
            self._is_switched(reading)
            if self._in_loop:
                self._try_out_next()
        self._windows.start()

    def _try_out_next(self, *, take_back: bool = False) -> None:
        """Have the next iterator start with the knobs of a challenger, if one runs.

        Within ``fit`` that is the one with which an epoch begins. Nobody tells that an exception has ended training,
        and the iterators after it are to be as if there were no tuner; where one serves several epochs, it is taken
        back.
        """
        if self.dataset is not None and self.search is not None and self.search.challenging:
            self.dataset.try_out_next({} if take_back else self.search.running)

    def _step_ended(self) -> None:
        """Count the step; at the end of a window, set the knobs of the next."""
        if self._steps.count():
            self._look()

    def _look(self) -> None:
        if self._epoch_begins and not self._in_loop:
            self._epoch_begins = False
            self._try_out_next(take_back=True)
        reading = self._reading
        if reading is None or reading.stall is None or not self._is_tuned(reading):
            self._steps.take()
            return
        steps = self._count_steps(start=self._may_start_next)
        if self._in_loop:
            self._next_epoch.offer()
        self._steps.look_after(self._seconds_to_next_look(), self._looks_in_epoch)
        if self.search is None and not self._begin_search(reading):
            return
        assert self.search is not None
        assert self._switch is not None
        if self._guard.is_exceeded(trying=not self._quiet):
            self._give_memory_back(reading)
            return
        if not self._is_switched(reading):
            return
        window = self._windows.step(reading.stall, self._gpu, steps=steps) or self._hopeless_window()
        if window is None:
            return
        if self._cold:
            # While the first step was traced, buffers filled that then take a while to drain.
            self._cold = False
            return
        if self.search.finished:
            self._look_on(window, reading)
            return
        values = self.search.feed(window)
        least = max(self.search.seconds_to_wait, self._window_seconds)
        self._windows.least_seconds = min(least, self._watching_seconds)
        if values is not None:
            self._switch.when_worth_it(reading)
            self._windows.restart()
        if self.search.finished:
            self._end_search()

    def _is_switched(self, reading: Reading) -> bool:
        """Return whether an iterator runs with what is to run now, and see to it that it does if it can.

        A window that is longer than an epoch goes on in the next one.
        """
        assert self._switch is not None
        before = reading.knobs
        runs = self._switch.runs(reading)
        if reading.knobs != before:
            self._windows.pause()
        return runs

    @property
    def _may_start_next(self) -> bool:
        return self._settled and not self._last_epoch and not self._memory_is_short

    @property
    def _settled(self) -> bool:
        return self.search is not None and self.search.finished

    @property
    def _quiet(self) -> bool:
        """Whether nothing is tried now, nor soon."""
        return self.search is not None and (self.search.finished or self.search.seconds_to_wait > 0)

    def _seconds_to_next_look(self) -> float:
        """Return how long steps are only counted; never beyond the time to start the next iterator."""
        longest = self._windows.least_seconds / _LEAST_LOOKS_IN_WINDOW
        if not self._quiet:
            return min(longest, _SECONDS_BETWEEN_LOOKS)
        to_start = self._next_epoch.seconds_to_start if self._may_start_next else None
        return longest if to_start is None else min(longest, to_start)

    @property
    def _looks_in_epoch(self) -> int:
        return _LEAST_LOOKS_IN_QUIET_EPOCH if self._quiet else _LEAST_LOOKS_IN_EPOCH

    def _count_steps(self, *, start: bool = False) -> int:
        steps = self._steps.take()
        if self._reading is not None and steps:
            self._next_epoch.step(self._reading, steps=steps, start=start)
        return steps

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Look away while a validation dataset is read: its time is none of the epoch's steps."""
        super().on_test_begin(logs)
        self._count_steps()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Put the epoch's figures into its logs, and how many settings were tried so far."""
        super().on_epoch_end(epoch, logs)
        self._count_steps()
        self._steps.end_epoch(self._looks_in_epoch)
        if logs is not None and self.search is not None:
            logs["pipeline_trials"] = len(trials_of(self._searches))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Leave the best knobs in the dataset, and say so."""
        super().on_train_end(logs)
        self._next_epoch.let_go()
        if self.search is None or self.dataset is None:
            self._tell_of_no_search()
            return
        self.dataset.retune(self.search.stop())
        if self.plan_path is not None and self.plan is not None:
            self.plan.save(self.plan_path)
        if self.verbose:
            show(self.summary())

    def _tell_of_no_search(self) -> None:
        """Say that nothing was searched, where a dataset was read that could have been; of others one was warned."""
        if self._reading is None:
            return
        if self.plan_path is not None:
            warnings.warn(
                f"PipelineTuner must see some steps to write a plan, but this training ended before a search began, so "
                f"there is no {self.plan_path}. Train for more steps or epochs, or use autopipe tune.",
                stacklevel=2,
            )
        elif self.verbose:
            show(self.summary())

    def summary(self) -> str:
        """Return what the search did, in one line."""
        return in_one_line(self._searches, self.most_loss)

    def _is_tuned(self, reading: Reading) -> bool:
        """Return whether it reads the dataset of the first step: the knobs of another are others."""
        if self.dataset is None or reading.dataset is self.dataset:
            return True
        if not self._warned_of_another:
            self._warned_of_another = True
            warnings.warn(
                "PipelineTuner tunes one dataset, the first that it was told a step of, but steps of another one "
                "followed, which stays as it is. Give each a tuner of its own.",
                stacklevel=2,
            )
        return False

    def _begin_search(self, reading: Reading) -> bool:
        if self._filling and memory_caches(reading.dataset.tree):
            if self.dataset is None:
                # What is wrong with it is told at the first step, and not an epoch later.
                self._space_of(reading.dataset)
            self.dataset = reading.dataset
            return False
        self.dataset = reading.dataset
        self._search_on(self.objective, self.study)
        return True

    def _space_of(self, dataset: OptimizedDataset) -> dict[str, Any]:
        """Return what those knobs may be that are searched."""
        # One that waits for the next iterator would stop the search until the epoch ends.
        searched = {knob.name for knob in used_knobs(dataset.tree) if knob.live}
        space = self.space(read_knobs(dataset.tree), Machine.here())
        return {name: distribution for name, distribution in space.items() if name in searched}

    def _search_on(self, objective: str, study: Any) -> None:
        """Search from the knobs that are in the dataset now."""
        assert self.dataset is not None
        space = self._space_of(self.dataset)
        self.search = Search(
            self.dataset.knobs,
            space,
            seeds=seeds([knob for knob in read_knobs(self.dataset.tree) if knob.live], Machine.here()),
            trials=self.trials,
            objective=objective,
            seed=self.seed,
            study=_that_fits(study, space),
            most_loss=self.most_loss,
            on_trial=self.on_trial,
        )
        self._searches.append(self.search)
        self._switch = Switch(self.search, self._next_epoch, self.most_loss, in_loop=self._in_loop)
        self._windows = WindowMeter(self._watching_seconds if self.search.finished else self._window_seconds)

    def _hopeless_window(self) -> Window | None:
        """Return the window under way if a challenger is so slow that it need not be completed."""
        assert self.search is not None
        so_far = self._windows.so_far() if self.search.challenging else None
        return so_far if so_far is not None and self.search.is_hopeless(so_far) else None

    def _give_memory_back(self, reading: Reading) -> None:
        """Take back what made the process cross its budget: the challenger, or else all that tuning changed."""
        assert self.search is not None
        assert self._switch is not None
        self._memory_is_short = True
        self._next_epoch.let_go()
        if self.search.challenging:
            why = f"the process grew by more than the budget of {self._guard.budget:,} bytes"
            self.search.give_up(why)
        elif self.search.incumbent != self.search.original:
            self.search.retreat()
        else:
            return
        self._switch.at_once(reading)
        self._windows.restart()

    def _end_search(self) -> None:
        assert self.search is not None
        self._watch = Watch(self.search.objective, self.search.last)
        self._windows = WindowMeter(self._watching_seconds)

    def _look_on(self, window: Window, reading: Reading) -> None:
        """Search again if training waits for good where it did not."""
        if self._watch is None or len(self._searches) >= _MOST_SEARCHES or not self._watch.fell(window):
            return
        self._search_on(self._watch.objective, None)


def _that_fits(study: Any, space: Mapping[str, Any]) -> Any:
    """Return a study that can propose what is in a space; for another warn, since training need not end for that."""
    if study is None:
        return None
    try:
        refuse_other_choices(study, space)
    except ArgumentError as other:
        warnings.warn(f"{other} Meanwhile PipelineTuner searches in a study of its own.", stacklevel=2)
        return None
    return study
