"""The search: Optuna proposes, and each proposal is measured between two windows of the best so far.

Machines drift, so a window is only ever compared with its neighbours: the incumbent is measured, then the
challenger, then the incumbent again. The challenger is kept if it beats the mean of its neighbours by more than
they differ from each other, and never if it takes fewer steps per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autopipe.tuning.window import OBJECTIVES, Window, pick_objective

__all__ = ["Search", "Trial"]

Values = Mapping[str, int]

_LEAST_GAIN = 0.02
_NOTHING_TO_GAIN = 0.98
_REPEATED_PROPOSALS = 10


@dataclass(frozen=True)
class Trial:
    """One challenger, measured.

    Attributes:
        number: counts from 1.
        knobs: its values.
        gain: its objective as a ratio to its neighbours', less one.
        noise: how much those neighbours differed, as a ratio.
        kept: whether it became the incumbent.
        seconds: time spent in its window.
    """

    number: int
    knobs: Values
    gain: float
    noise: float
    kept: bool
    seconds: float


class Search:
    """Finds knobs by ask and tell. It is fed windows, and says which knobs should run in the next one.

    Args:
        knobs: the values the pipeline runs with now: the first incumbent.
        space: what each knob may be, as Optuna distributions.
        trials: challengers to measure at the most.
        objective: ``"auto"``, ``"gpu"``, ``"busy"`` or ``"rate"``.
        seed: for Optuna's sampler.
        on_trial: told of each trial.
    """

    def __init__(
        self,
        knobs: Values,
        space: Mapping[str, Any],
        *,
        trials: int = 12,
        objective: str = "auto",
        seed: int | None = None,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> None:
        self.incumbent = dict(knobs)
        self.running = dict(knobs)
        self.trials: list[Trial] = []
        self.first: Window | None = None
        self.last: Window | None = None
        self.finished = not space or trials < 1
        self._space = dict(space)
        self._most_trials = trials
        self._objective = objective
        self._seed = seed
        self._on_trial = on_trial
        self._before: Window | None = None
        self._challenge: Window | None = None
        self._asked: Any = None
        self._score = 1.0
        self._tried = {self._key(knobs)}

    @property
    def objective(self) -> str:
        """The objective in use; the requested name until the first window is there."""
        return pick_objective(self._objective, self.first) if self.first else self._objective

    def feed(self, window: Window) -> Values | None:
        """Take the window that has just ended; return the knobs to set now, or ``None`` to leave them."""
        if self.finished:
            return None
        if self.first is None:
            self.first = window
            self._start_study()
        if self.running != self.incumbent:
            self._challenge = window
            return self._run(self.incumbent)
        self.last = window
        if self._challenge is not None:
            self._judge(after=window)
        self._before = window
        return self._next()

    def stop(self) -> Values:
        """End the search; return the best knobs found."""
        self.finished = True
        self.running = dict(self.incumbent)
        return self.incumbent

    def _start_study(self) -> None:
        import optuna

        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self._seed, n_startup_trials=max(4, self._most_trials // 2))
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        if all(distribution._contains(self.incumbent[name]) for name, distribution in self._space.items()):
            current = {name: self.incumbent[name] for name in self._space}
            known = optuna.trial.create_trial(params=current, distributions=self._space, value=self._score)
            self._study.add_trial(known)
        optuna.logging.set_verbosity(verbosity)

    def _next(self) -> Values | None:
        """Return a challenger; ``None`` at the end, with the incumbent running."""
        if len(self.trials) >= self._most_trials or self._nothing_to_gain():
            self.stop()
            return None
        for _ in range(_REPEATED_PROPOSALS):
            self._asked = self._study.ask(self._space)
            challenger = {**self.incumbent, **self._asked.params}
            if self._key(challenger) not in self._tried:
                self._tried.add(self._key(challenger))
                return self._run(challenger)
            # A value below all measured steers the sampler away from what it has proposed already.
            self._study.tell(self._asked, 0.0)
        self.stop()
        return None

    def _judge(self, after: Window) -> None:
        assert self._before is not None
        assert self._challenge is not None
        measure = OBJECTIVES[self.objective]
        old, new, again = measure(self._before), measure(self._challenge), measure(after)
        neighbours = (old + again) / 2 or 1e-9
        gain, noise = new / neighbours - 1, abs(again - old) / neighbours
        rate = 2 * self._challenge.rate / (self._before.rate + after.rate) - 1
        slower = rate < -abs(after.rate / self._before.rate - 1) - _LEAST_GAIN
        kept = gain > max(noise, _LEAST_GAIN) and not slower
        challenger = {**self.incumbent, **self._asked.params}
        self._study.tell(self._asked, self._score * (1 + gain))
        if kept:
            self.incumbent = challenger
            self._score *= 1 + gain
        trial = Trial(len(self.trials) + 1, challenger, gain, noise, kept, self._challenge.seconds)
        self.trials.append(trial)
        self._challenge = None
        if self._on_trial:
            self._on_trial(trial)

    def _nothing_to_gain(self) -> bool:
        """Return whether the consumer hardly waits; a rate has no such ceiling."""
        return self.objective == "busy" and self.last is not None and self.last.busy >= _NOTHING_TO_GAIN

    def _run(self, values: Values) -> Values:
        self.running = dict(values)
        return values

    def _key(self, values: Values) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(values.items()))
