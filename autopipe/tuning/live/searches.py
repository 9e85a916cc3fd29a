"""The searches of a training: they choose which knobs run next from the steps that have ended."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autopipe.errors import ArgumentError, StorageError
from autopipe.figures import bytes_text
from autopipe.pipeline.knobs import read_knobs, used_knobs
from autopipe.planning.memory.machine import Machine, threads_left
from autopipe.runtime.readings import Reading
from autopipe.search_spaces import SearchSpace, ask
from autopipe.telemetry import Sampler
from autopipe.tuning.live.memory_guard import MemoryGuard
from autopipe.tuning.live.next_epoch import NextEpoch
from autopipe.tuning.live.switch import Switch
from autopipe.tuning.live.watch import Watch
from autopipe.tuning.search.distributions import fits
from autopipe.tuning.search.first_tries import first_tries
from autopipe.tuning.search.limits import most_held, most_threads
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.trial import Trial
from autopipe.tuning.search.window import Window, WindowMeter
from autopipe.tuning.studies import reaching_storage, refuse_other_choices

if TYPE_CHECKING:
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["LiveSearch", "Settings", "live_space"]

_MOST_SEARCHES = 4
# A window that only checks that nothing has changed need not be short.
_WATCHING_SECONDS = 2.0
# The memory of a challenger is freed by another thread after it was taken back; that takes at most this long.
_SECONDS_TO_LET_GO = 1.0
# The driver's first sample in a window may be of what ran before, and the latest may not be available yet.
_LEAST_GPU_SAMPLES_IN_WINDOW = 5


@dataclass(frozen=True)
class Settings:
    """What a user asks of the searches of a training; ``PipelineTuner`` documents each."""

    trials: int
    space: SearchSpace
    objective: str
    window_seconds: float
    most_loss: float
    seed: int | None = None
    on_trial: Callable[[Trial], None] | None = None


def live_space(space: SearchSpace, dataset: OptimizedDataset) -> dict[str, Any]:
    """Return the distributions of the knobs of a dataset that are searched while it is read.

    Raises:
        ArgumentError: if the space does not suit the pipeline.
    """
    # A knob that waits for the next iterator would stop the search until the epoch ends.
    searched = {knob.name for knob in used_knobs(dataset.tree) if knob.live}
    # Asked for the original values, so that a study may continue in the next training, whatever this one finds.
    distributions = ask(space, read_knobs(dataset.explain().rewriting.tunable), Machine.here())
    now = dataset.knobs
    if not all(fits(now[name], distribution) for name, distribution in distributions.items()):
        distributions = ask(space, read_knobs(dataset.tree), Machine.here())
    return {name: distribution for name, distribution in distributions.items() if name in searched}


class LiveSearch:
    """Searches while a dataset is read, then keeps watching, and searches again if training waits again for good.

    Args:
        dataset: the dataset whose knobs are searched.
        settings: what the user asks of the searches.
        study: an Optuna study for the first of them; by default one in memory.
        guard: detects that the process has grown too much.
        next_epoch: knows how long iterators last.
        gpu: samples the GPUs, if there are any.
        in_loop: whether a custom training loop takes the iterators, so that the next one is that of the next epoch.

    Attributes:
        searches: in the order they began.
        memory_is_short: whether the process has grown too much at any time.
    """

    _switch: Switch
    _windows: WindowMeter
    _watch: Watch | None

    def __init__(
        self,
        dataset: OptimizedDataset,
        settings: Settings,
        *,
        study: Any,
        guard: MemoryGuard,
        next_epoch: NextEpoch,
        gpu: Sampler | None,
        in_loop: bool,
    ) -> None:
        self.searches: list[Search] = []
        self.memory_is_short = False
        self._dataset = dataset
        self._settings = settings
        self._guard = guard
        self._next_epoch = next_epoch
        self._gpu = gpu
        self._in_loop = in_loop
        self._cold = True
        self._challenged = 0.0
        self._begin(settings.objective, study)

    @property
    def search(self) -> Search:
        """The latest."""
        return self.searches[-1]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is tried now or soon."""
        return self.search.finished or self.search.seconds_to_wait > 0

    @property
    def least_window_seconds(self) -> float:
        """The least length of the window under way."""
        return self._windows.least_seconds

    def pause(self) -> None:
        """Leave out the time between the last step and the next, and the growth of the process meanwhile."""
        self._windows.pause()
        self._guard.leave_out()

    def iterator_started(self, reading: Reading, *, epoch_begins: bool) -> None:
        """Note a new iterator; if an epoch begins with it, it gets the knobs of a running challenger."""
        if epoch_begins and reading.dataset is self._dataset and self.search.challenging:
            # Another reader may have taken the iterator meant for them. Before buffers fill, a change is cheaper.
            self._is_switched(reading)
            if self._in_loop:
                self.try_out_next()
        self._windows.start()

    def try_out_next(self, *, take_back: bool = False) -> None:
        """Have the next iterator start with the knobs of a challenger, if one runs.

        Within ``fit`` that is the one with which an epoch begins. Nothing signals that an exception has ended training,
        and the iterators after it must be as if there were no tuner; if one iterator serves several epochs, this is
        taken back.
        """
        if self.search.challenging:
            self._dataset.try_out_next({} if take_back else self.search.running)

    def steps_ended(self, reading: Reading, steps: int) -> None:
        """Count steps, the last of which has just ended; at the end of a window, set the knobs of the next."""
        assert reading.stall is not None
        if self.search.challenging:
            self._challenged = time.perf_counter()
        if self._guard.is_exceeded(trying=not self.is_quiet and not self._switch.waits_for_next(reading)):
            self._give_memory_back(reading)
            return
        if not self._is_switched(reading):
            return
        window = self._windows.step(reading.stall, self._gpu, steps=steps) or self._hopeless_window()
        if window is None:
            return
        if self._cold:
            # While the first step was traced, buffers filled, which then take a while to drain.
            self._cold = False
            return
        if self.search.finished:
            self._look_on(window)
            return
        began = time.perf_counter()
        values = self.search.feed(window)
        self.search.waited(time.perf_counter() - began)
        self._windows.begin_now()
        least = max(self.search.seconds_to_wait, self._window_seconds)
        self._windows.least_seconds = min(least, self._watching_seconds)
        if values is not None:
            self._switch.when_worth_it(reading)
            self._windows.restart()
        if self.search.finished:
            self._watch = Watch(self.search.objective, self.search.last)
            self._windows = WindowMeter(self._watching_seconds)

    @property
    def _window_seconds(self) -> float:
        """The least length of a window with the objective in use."""
        if self._gpu is None or self._settings.objective not in ("auto", "gpu"):
            return self._settings.window_seconds
        return max(self._settings.window_seconds, _LEAST_GPU_SAMPLES_IN_WINDOW * self._gpu.period)

    @property
    def _watching_seconds(self) -> float:
        return max(self._window_seconds, _WATCHING_SECONDS)

    def _begin(self, objective: str, study: Any) -> None:
        """Search from the knobs that are in the dataset now."""
        space, machine = live_space(self._settings.space, self._dataset), Machine.here()
        knobs = [knob for knob in read_knobs(self._dataset.tree) if knob.live]
        search = Search(
            self._dataset.knobs,
            space,
            first_tries=first_tries(knobs, machine),
            trials=self._settings.trials,
            objective=objective,
            seed=self._settings.seed,
            study=_that_fits(study, space),
            most=self._most(machine),
            most_loss=self._settings.most_loss,
            on_trial=self._settings.on_trial,
        )
        self.searches.append(search)
        self._watch = None
        self._switch = Switch(search, self._next_epoch, self._settings.most_loss, in_loop=self._in_loop)
        self._windows = WindowMeter(self._watching_seconds if search.finished else self._window_seconds)

    def _most(self, machine: Machine) -> dict[str, int]:
        """Return the largest values of knobs for which threads and memory are left."""
        tree = self._dataset.tree
        threads, held = most_threads(read_knobs(tree), threads_left(), machine), most_held(tree, self._guard.room)
        return {name: min(each[name] for each in (threads, held) if name in each) for name in {**threads, **held}}

    def _is_switched(self, reading: Reading) -> bool:
        """Return whether an iterator runs with the knobs that should run now, after changing it if that is possible.

        A window that is longer than an epoch goes on in the next one.
        """
        before = reading.knobs
        runs = self._switch.runs(reading)
        if reading.knobs != before:
            self._windows.pause()
        return runs

    def _hopeless_window(self) -> Window | None:
        """Return the window under way if a challenger is so slow that it need not be completed."""
        so_far = self._windows.so_far() if self.search.challenging else None
        return so_far if so_far is not None and self.search.is_hopeless(so_far) else None

    def _give_memory_back(self, reading: Reading) -> None:
        """Undo what made the process exceed its budget: the challenger, or else all that tuning changed."""
        self.memory_is_short = True
        self._next_epoch.let_go()
        why = f"the process grew by more than the budget of {bytes_text(self._guard.budget)}"
        before = self.searches[0]
        if self.search.challenging:
            self.search.give_up(why)
        elif self.search.incumbent != before.original and self._challengers_are_gone:
            self.search.retreat(before.original, before.first, why)
            # Training waits more with the original knobs, and must not be tuned into the same again.
            self._watch = None
        else:
            return
        self._switch.at_once(reading)
        self._windows.restart()

    @property
    def _challengers_are_gone(self) -> bool:
        return time.perf_counter() - self._challenged > _SECONDS_TO_LET_GO

    def _look_on(self, window: Window) -> None:
        """Search again if training lastingly waits more than it did."""
        if self._watch is None or len(self.searches) >= _MOST_SEARCHES or not self._watch.fell(window):
            return
        self._begin(self._watch.objective, None)


def _that_fits(study: Any, space: Mapping[str, Any]) -> Any:
    """Return a study if it can propose what is in a space; otherwise warn: training need not end for that."""
    if study is None:
        return None
    try:
        with reaching_storage(whatever=True):
            refuse_other_choices(study, space)
    except (ArgumentError, StorageError) as unfit:
        warnings.warn(f"{unfit} Meanwhile PipelineTuner searches in a study of its own.", stacklevel=2)
        return None
    return study
