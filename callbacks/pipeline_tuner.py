from __future__ import annotations

import math
import os
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from autopipe.arguments import bytes_or_none, file_to_write, function, number, one_of, seed_or_none, whole_number
from autopipe.callbacks._watching import WatchingCallback
from autopipe.errors import ArgumentError
from autopipe.pipeline import trees
from autopipe.planning.costs.profile import Stretch
from autopipe.planning.memory.ledger import promised_to
from autopipe.planning.memory.machine import Machine
from autopipe.planning.plans.plan import Plan
from autopipe.printing import show
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.readings import Reading
from autopipe.search_spaces import SearchSpace, by_name, default
from autopipe.tuning.live.memory_guard import MemoryGuard
from autopipe.tuning.live.next_epoch import NextEpoch
from autopipe.tuning.live.outcome import in_one_line, measured, trials_of
from autopipe.tuning.live.searches import LiveSearch, Settings, live_space
from autopipe.tuning.live.step_counter import StepCounter
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.trial import Trial
from autopipe.tuning.search.window import OBJECTIVES
from autopipe.tuning.studies import load_optuna, reaching_storage, refuse_other_direction

__all__ = ["PipelineTuner"]

_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_BETWEEN_ASKING = 1.0
_LEAST_LOOKS_IN_WINDOW = 10
_LEAST_LOOKS_IN_EPOCH = 10
_LEAST_LOOKS_IN_QUIET_EPOCH = 4


class PipelineTuner(WatchingCallback):
    """Tunes the knobs of an optimized dataset while ``fit`` trains from it.

    The pipeline as it stands is the first incumbent. Each challenger that Optuna proposes runs for a short window
    of steps between two windows of the incumbent. It is kept only if it beats their mean by more than they differ, and
    is no slower; one that is far slower is ended early. If training does not wait for data, smaller numbers are tried,
    and kept if they cost nothing. Every element is still seen exactly once per epoch. When the search or ``fit`` ends,
    the best knobs found stay in the dataset, and one line is printed. If training later waits lastingly again, because
    another job took the cores, say, the search begins anew.

    Once the best knobs are found, the iterator of each epoch starts before the previous one ends, so that its buffers
    are full when its turn comes.

    An iterator that fills a memory cache says nothing about later ones. So with such a cache in the pipeline, and more
    epochs to come, the search begins when the cache stops growing, or another iterator is read.

    In a training loop of your own, the tuner is a context manager whose :meth:`step` is called after every step.
    Several trainings at once, in threads, need a tuner each.

    Args:
        trials: the largest number of challengers to measure.
        space: what the knobs may be: a space of ``autopipe.search_spaces``, or its name.
        objective: ``"gpu"`` (utilization), ``"busy"`` (share of step time not spent waiting for data), ``"rate"``
            (steps per second), or ``"auto"``: the GPU if there is one, else ``"busy"``.
        window_seconds: the least length of a window. If the GPU's utilization counts, it is at least five of the
            spans over which the driver averages it; they last 1/6 to 1 s.
        most_loss: the share of all time that trials may lose, beyond what they won; each trial waits until it fits.
            If training waits for data for less than a tenth of the time, the share shrinks in proportion, down to a
            fifth, since there is less to win; not with ``objective="rate"`` or ``math.inf``. What the first trial
            loses is not known in advance: in a short training of long steps it may be more.
        ram_budget: bytes by which the process may grow while tuning; by default half of what it can still get. No more
            calls and buffers are tried than fit into it, as far as types tell the size of elements; a challenger that
            exceeds it all the same is taken back when the next step ends. Growth between two epochs does not count:
            that is a cached validation dataset, or a checkpoint.
        seed: for Optuna's sampler.
        study: an Optuna study that maximizes, which proposes settings and records results; by default one in memory. A
            study whose trials chose among other values for the same knobs is not used, with a warning.
        plan: where to write the plan at the end.
        verbose: 0 prints nothing.
        on_trial: called with each ``autopipe.tuning.search.trial.Trial``.

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
        space: SearchSpace | str | os.PathLike[str] = default,
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
        if study is not None and not hasattr(study, "ask"):
            raise ArgumentError(
                f"study must be an Optuna study, but got {study!r}. "
                'Make one with optuna.create_study(direction="maximize").'
            )
        if study is not None:
            with reaching_storage(whatever=True):
                refuse_other_direction(study)
        self.trials = whole_number("trials", trials)
        self.space = by_name(space)
        self.objective = one_of("objective", objective, ("auto", *OBJECTIVES))
        self.window_seconds = number("window_seconds", window_seconds, above=True, finite=True)
        self.most_loss = number("most_loss", most_loss)
        self.ram_budget = bytes_or_none("ram_budget", ram_budget)
        self.seed = seed_or_none("seed", seed)
        self.study = study
        self.plan_path = None if plan is None else file_to_write("plan", plan)
        self.verbose = verbose
        self.on_trial = function("on_trial", on_trial, "a trial")
        self._summed_up = ""
        super().__init__()

    def _reset(self) -> None:
        super()._reset()
        self.dataset: OptimizedDataset | None = None
        self._live: LiveSearch | None = None
        self._filling = False
        self._filled_lately, self._ask_again = True, 0.0
        # The first iterator that was trained on: if it serves several epochs, it may fill a cache in all of them.
        self._first: Reading | None = None
        self._next_epoch = NextEpoch()
        self._last_epoch = self._epoch_begins = False
        self._steps = StepCounter()
        self._warned_of_another = False

    @property
    def search(self) -> Search | None:
        """The latest search; ``None`` before one has begun."""
        return self._live.search if self._live else None

    @property
    def _searches(self) -> list[Search]:
        return self._live.searches if self._live else []

    @property
    def best(self) -> dict[str, int]:
        """The best knobs found; empty before training."""
        return dict(self.search.incumbent) if self.search else {}

    @property
    def lost_seconds(self) -> float:
        """The seconds that searching cost training so far: slower windows, swaps and the study."""
        return math.fsum(search.lost_seconds for search in self._searches)

    @property
    def plan(self) -> Plan | None:
        """The plan of the dataset with the best knobs and the measurements; ``None`` before training."""
        if self.dataset is None or self.search is None:
            return None
        return replace(
            self.dataset.plan, knobs=self.best, machine=asdict(Machine.here()), measured=measured(self._searches)
        )

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Prepare the search, so that no step waits for it."""
        load_optuna()
        super().on_train_begin(logs)
        if self.objective == "gpu" and self._gpu is None:
            warnings.warn(
                'objective="gpu" must have GPUs whose utilization can be read, but this training has none. '
                'PipelineTuner uses the share of time not spent waiting for data, as with objective="busy".',
                stacklevel=2,
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Leave out of the windows what happened since the last step: validation, checkpoints, a cold start."""
        super().on_epoch_begin(epoch, logs)
        self._count_steps()
        self._steps.look_at_next()
        # Offered only now: Keras also makes an iterator at the end of an epoch, and discards it.
        self._next_epoch.offer()
        if self._live is not None:
            self._live.try_out_next()
            self._live.pause()
        self._epoch_begins = True
        self._last_epoch = epoch + 1 >= (self.params or {}).get("epochs", 1)
        self._filling = not self._last_epoch and (self.dataset is None or not self.dataset.caches_are_full)

    def _follow(self, reading: Reading) -> None:
        """Count the remaining steps of the previous iterator; the new one gets the knobs of a running challenger."""
        self._count_steps()
        self._steps.look_at_next()
        super()._follow(reading)
        # Within fit() only one iterator is the epoch's: one made after an exception must not be mistaken for it.
        begins, self._epoch_begins = self._epoch_begins, False
        if self._live is not None:
            self._live.iterator_started(reading, epoch_begins=begins)

    def _returned(self, reading: Reading) -> None:
        """Leave out of the windows what happened meanwhile."""
        if self._live is not None:
            self._live.pause()

    def _steps_begin(self) -> None:
        """Let no other iterator run with the knobs of a challenger once the epoch's own was made."""
        self._epoch_begins = False
        if self._live is not None:
            self._live.try_out_next(take_back=True)

    def _step_ended(self) -> None:
        """Count the step; at the end of a window, set the knobs of the next."""
        if self._steps.count():
            self._look()

    def _look(self) -> None:
        reading = self._reading
        if reading is None or reading.stall is None or not self._is_tuned(reading):
            self._steps.take()
            return
        steps = self._count_steps(start=self._may_start_next)
        if self._in_loop:
            self._next_epoch.offer()
        self._steps.look_after(self._seconds_to_next_look(), self._looks_in_epoch)
        if self._live is None:
            self._live = self._begun(reading)
        if self._live is not None:
            self._live.steps_ended(reading, steps)

    @property
    def _may_start_next(self) -> bool:
        settled = self._live is not None and self._live.search.finished and not self._live.memory_is_short
        return settled and not self._last_epoch

    @property
    def _is_quiet(self) -> bool:
        return self._live is not None and self._live.is_quiet

    def _seconds_to_next_look(self) -> float:
        """Return for how long steps are only counted; never beyond the time to start the next iterator."""
        window_seconds = self._live.least_window_seconds if self._live else self.window_seconds
        longest = window_seconds / _LEAST_LOOKS_IN_WINDOW
        if not self._is_quiet:
            return min(longest, _SECONDS_BETWEEN_LOOKS)
        to_start = self._next_epoch.seconds_to_start if self._may_start_next else None
        return longest if to_start is None else min(longest, to_start)

    @property
    def _looks_in_epoch(self) -> int:
        return _LEAST_LOOKS_IN_QUIET_EPOCH if self._is_quiet else _LEAST_LOOKS_IN_EPOCH

    def _count_steps(self, *, start: bool = False) -> int:
        steps = self._steps.take()
        if self._reading is not None and steps:
            self._next_epoch.step(self._reading, steps=steps, start=start)
        return steps

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Stop measuring while a validation dataset is read: its time does not belong to the epoch's steps."""
        super().on_test_begin(logs)
        self._count_steps()

    def _looked_away(self, stretch: Stretch) -> None:
        """Leave the stretch, and the growth of the process in it, out of the window under way, too."""
        if self._live is not None:
            self._live.pause()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Put the epoch's figures into its logs, and how many settings were tried so far."""
        super().on_epoch_end(epoch, logs)
        self._count_steps()
        self._steps.end_epoch(self._looks_in_epoch)
        if logs is not None and self._reading is not None and self._reading.tuner() in (None, self):
            logs["pipeline_trials"] = len(trials_of(self._searches))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Leave the best knobs in the dataset, and report them."""
        super().on_train_end(logs)
        self._next_epoch.let_go()
        if self.search is None or self.dataset is None:
            self._tell_of_no_search()
            return
        self.dataset.retune(self.search.stop())
        self._save_plan()
        self._sum_up()

    def _save_plan(self) -> None:
        """Write the plan; if that fails only warn, since the model is trained."""
        if self.plan_path is None or self.plan is None:
            return
        try:
            self.plan.save(os.fspath(self.plan_path))
        except (ArgumentError, OSError) as error:
            warnings.warn(
                f"PipelineTuner must be able to write its plan at the end of training, but there is none: {error} "
                "Write it with tuner.plan.save(file) as long as the tuner exists.",
                stacklevel=2,
            )

    def _tell_of_no_search(self) -> None:
        """Report that nothing was searched if a tunable dataset was read; for others there was a warning already."""
        if self._reading is None or self._reading.tuner() not in (None, self):
            return
        if self.plan_path is not None:
            warnings.warn(
                f"PipelineTuner must see some steps to write a plan, but this training ended before a search began, so "
                f"there is no {self.plan_path}. Train for more steps or epochs, or use autopipe tune.",
                stacklevel=2,
            )
        else:
            self._sum_up()

    def _sum_up(self) -> None:
        """Report what the search did, unless the same was reported before."""
        summary = self.summary()
        if self.verbose and summary != self._summed_up:
            show(summary)
        self._summed_up = summary

    def summary(self) -> str:
        """Return what the search did, in one line."""
        return in_one_line(self._searches, self.most_loss)

    def _is_tuned(self, reading: Reading) -> bool:
        """Return whether an iterator reads the dataset of the first step: another dataset has other knobs."""
        if reading.tuner() not in (None, self):
            self._warn_of_another_tuner()
            return False
        if self.dataset is None or reading.dataset is self.dataset:
            reading.tuner = weakref.ref(self)
            return True
        if not self._warned_of_another:
            self._warned_of_another = True
            warnings.warn(
                "PipelineTuner tunes one dataset, that of the first step, but steps on another one followed, which "
                "stays as it is. Give each dataset its own tuner.",
                stacklevel=2,
            )
        return False

    def _warn_of_another_tuner(self) -> None:
        if self._warned_of_another:
            return
        self._warned_of_another = True
        warnings.warn(
            "A dataset is tuned by one PipelineTuner at a time, but two follow the same training; the second leaves it "
            "to the first. Remove one of them.",
            stacklevel=2,
        )

    def _is_filling(self, reading: Reading) -> bool:
        """Return whether an iterator fills a cache, or did recently; it may be the only one of a long training."""
        now = time.monotonic()
        if now >= self._ask_again:
            self._filling, self._filled_lately = self._filled_lately, reading.is_filling
            self._ask_again = now + _SECONDS_BETWEEN_ASKING
        return self._filling

    def _begun(self, reading: Reading) -> LiveSearch | None:
        """Return a search of the dataset that is read; ``None`` while its cache is being filled."""
        dataset, is_first = reading.dataset, self._first is None
        self._first, self.dataset = self._first or reading, dataset
        if self._filling and reading is self._first and any(node.in_memory for node in trees.keeping(dataset.tree)):
            if is_first:
                # An error in the space is raised at the first step, and not an epoch later.
                live_space(self.space, dataset)
            if self._is_filling(reading):
                return None
        settings = Settings(
            trials=self.trials,
            space=self.space,
            objective=self.objective,
            window_seconds=self.window_seconds,
            most_loss=self.most_loss,
            seed=self.seed,
            on_trial=self.on_trial,
        )
        return LiveSearch(
            dataset,
            settings,
            study=self.study,
            # Memory that fills caches does not count: optimize() has made sure that they fit.
            guard=MemoryGuard(self.ram_budget, promised_to(dataset)),
            next_epoch=self._next_epoch,
            gpu=self._gpu,
            in_loop=self._in_loop,
        )
