"""The search: Optuna proposes settings, and each is measured between two windows of the incumbent, the best so far.

- Propose: seeds, the settings that help most often, come first. Then every other challenger is one step from the
  incumbent: a sampler would need more trials than training has time for to find the last few percent. Once the consumer
  hardly waits, smaller numbers are tried instead, to give resources back.
- Judge: machines drift, so a window is only compared with its neighbours: incumbent, challenger, incumbent.
- Repeat: a swap hands on buffers that were filled with the knobs before, so a window is measured again if its
  challenger may be kept, or if the incumbent seems to have changed. A challenger that may be better by less than the
  noise gets more matches, whose median is less noisy. A seed is not rejected for one match that it narrowly lost.
- Keep: a challenger is kept if it beats the mean of its neighbours by more than they differ and by 2%, less for several
  matches, and if its steps per second fell by no more than that plus the difference between its neighbours. A smaller
  number is kept if nothing noticeable is lost. Knobs that were kept meet the first knobs again at the end, or as soon
  as they make far fewer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autopipe.tuning.search.contest import LEAST_GAIN, Contest
from autopipe.tuning.search.distributions import fits
from autopipe.tuning.search.lean import leaner
from autopipe.tuning.search.loss_budget import LossBudget
from autopipe.tuning.search.match import compare
from autopipe.tuning.search.neighbours import neighbours
from autopipe.tuning.search.proposals import Proposals
from autopipe.tuning.search.trial import Trial, Values
from autopipe.tuning.search.window import Window, measure_of, pick_objective

__all__ = ["Search"]

_NOTHING_TO_GAIN = 0.98
_HOPELESS = 0.6
# An incumbent whose steps per second changed by more than this share is measured again, at most this many times.
_UNSTEADY = 0.2
_MOST_AGAIN = 2
# The winner of a rematch has won this many of three matches.
_DECIDING = 2
_REPEATED_PROPOSALS = 10


class Search:
    """Finds knobs by ask and tell. It is fed windows, and returns which knobs should run in the next one.

    Args:
        knobs: the values the pipeline runs with now; they are the first incumbent.
        space: what each knob may be, as Optuna distributions.
        first_tries: values to try first, in this order; knobs whose value is not in the space keep theirs.
        trials: the largest number of challengers to measure.
        objective: ``"auto"``, ``"gpu"``, ``"busy"`` or ``"rate"``.
        seed: for Optuna's sampler.
        study: an Optuna study to ask and tell; by default a new one in memory.
        most: the largest value of each knob on this machine, by its name, whatever the space says.
        most_loss: the share of all time that trials may lose; a trial waits until earlier ones are made up for. If
            training waits for less than a tenth of its time, the share shrinks in proportion, to no less than a fifth.
        on_trial: called with each trial.

    Attributes:
        original: the values the pipeline ran with at first.
        incumbent: the best so far.
        running: what should run now.
        trials: in the order they were made.
        first: the first window of all; ``None`` until it is there.
        last: the latest window of an incumbent.
        swap_seconds: what changing iterators took.
        finished: whether no other trial follows.
        unmeasured: whether the search ended while the first challenger had yet to be measured.
        retreated: why the knobs that were kept were given up again; empty if they were not.
    """

    def __init__(
        self,
        knobs: Values,
        space: Mapping[str, Any],
        *,
        first_tries: Sequence[Values] = (),
        trials: int = 12,
        objective: str = "auto",
        seed: int | None = None,
        study: Any = None,
        most: Values | None = None,
        most_loss: float = math.inf,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> None:
        self.original = dict(knobs)
        self.incumbent = dict(knobs)
        self.running = dict(knobs)
        self.trials: list[Trial] = []
        self.first: Window | None = None
        self.last: Window | None = None
        self.swap_seconds = 0.0
        self.finished = not space or trials < 1
        self.unmeasured = False
        self.retreated = ""
        self._space = dict(space)
        self._first_tries = [dict(each) for each in first_tries]
        self._most_trials = trials
        self._objective = objective
        self._proposals = Proposals(study, space, seed, most)
        # The rate may also rise because the pipeline leaves cores to the model, so waiting is no bound for it.
        self._loss_budget = LossBudget(most_loss, ends_waiting=objective != "rate")
        self._on_trial = on_trial
        self._before: Window | None = None
        self._waiting = False
        self._challenge: Window | None = None
        self._contest: Contest | None = None
        self._again = 0
        self._rematch: list[bool] = []
        self._settled: set[str] = set()
        self._score = 1.0
        self._just_won = 0.0
        self._tried = {self._key(knobs)}
        self._seeded: set[tuple[tuple[str, int], ...]] = set()

    @property
    def has_knobs(self) -> bool:
        """Whether there is anything to search."""
        return bool(self._space)

    @property
    def has_trials(self) -> bool:
        """Whether any trial is asked for."""
        return self._most_trials > 0

    @property
    def objective(self) -> str:
        """The objective in use; the requested name until the first window is there."""
        return pick_objective(self._objective, self.first) if self.first else self._objective

    @property
    def challenging(self) -> bool:
        """Whether a challenger runs now."""
        return not self.finished and self._challenge is None and self.running != self.incumbent

    @property
    def seconds_to_wait(self) -> float:
        """How long no trial can be afforded yet; windows may last as long, since none is a challenger's neighbour."""
        return self._loss_budget.seconds_to_wait if self._waiting and not self.finished else 0.0

    @property
    def losing(self) -> float:
        """The share of its time that training loses as long as the knobs of the last window keep running."""
        if self._challenge is None or self._before is None:
            return max(1.0 - 1.0 / (1.0 + self._just_won), 0.0)
        return max(1.0 - self._challenge.rate / self._before.rate, 0.0)

    @property
    def too_early(self) -> bool:
        """Whether no trial has begun yet because the loss budget allows none."""
        return not self.trials and not self._loss_budget.allows_another

    @property
    def share_to_lose(self) -> float:
        """The share of all time that trials may lose; it is small if there is little to win."""
        return self._loss_budget.share

    @property
    def lost_seconds(self) -> float:
        """The seconds that trials cost: slower windows, swaps and the study."""
        return self._loss_budget.lost

    def feed(self, window: Window) -> Values | None:
        """Take the window that has just ended; return the knobs to set now, or ``None`` to leave them."""
        if self.finished:
            return None
        self._just_won = 0.0
        if self.first is None:
            self.first = window
            self._start_study()
        if self.challenging:
            if self._may_be_kept(window) and not self._again:
                self._again = 1
                return None
            self._challenge, self._again = window, 0
            return self._run(self.incumbent)
        self.last = window
        self._loss_budget.ran(window)
        if self._challenge is not None:
            if self._is_unsteady(window) and self._again < _MOST_AGAIN:
                self._again += 1
                return None
            self._again = 0
            self._judge(after=window)
        if self.running != self.incumbent:
            # A new incumbent is measured once more: that window is the neighbour of the next challenger.
            return self._run(self.incumbent)
        self._before = window
        # A window that only waited may be long: another one must be the neighbour of the next challenger.
        waited, self._waiting = self._waiting, not self._loss_budget.allows_another
        return None if waited or self._waiting else self._next()

    def swapped(self, seconds: float) -> None:
        """Count the time it took to set the knobs that :meth:`feed` returned: it is lost, as with a slow challenger."""
        self.swap_seconds += seconds
        self._loss_budget.lose(seconds)

    def waited(self, seconds: float) -> None:
        """Count the time that :meth:`feed` took: its study may be in a database, and no step runs meanwhile."""
        self._loss_budget.lose(seconds)

    def ran_on(self, seconds: float) -> None:
        """Count the time that the challenger of the last window keeps running until another iterator replaces it."""
        self._loss_budget.lose(self.losing * seconds)

    def is_hopeless(self, so_far: Window) -> bool:
        """Return whether the running challenger is so slow that the rest of its window would be wasted."""
        return self.challenging and self._before is not None and so_far.rate < _HOPELESS * self._before.rate

    def give_up(self, why: str) -> None:
        """End the trial under way because it harms the machine; the incumbent should run at once."""
        self._proposals.tell(None)
        if self.running == self.original:
            self._rematch.append(False)
        self._note(Trial(len(self.trials) + 1, dict(self.running), -1.0, 0.0, False, 0.0, failure=why))
        self._challenge = self._contest = None
        self._again = 0
        self._run(self.incumbent)

    def retreat(self, knobs: Values, window: Window | None, why: str) -> None:
        """End the search with earlier knobs and their window, whatever was kept since."""
        self.incumbent, self.last, self.retreated = dict(knobs), window, why
        self._end()

    def stop(self) -> Values:
        """End the search; return the best knobs found: the first ones, if those kept make far fewer steps.

        That may happen because a challenger's window has many steps if a swap hands on full buffers.
        """
        if self._is_doubtful and not self._met_again:
            self._go_back()
        self._end()
        return self.incumbent

    def _go_back(self) -> None:
        self.incumbent, self.last = dict(self.original), self.first

    def _end(self) -> None:
        self._proposals.tell(None)
        self.unmeasured = self.unmeasured or (self.challenging and not self.trials)
        self.finished = True
        self.running = dict(self.incumbent)

    def _start_study(self) -> None:
        seeds = [self._possible(each) for each in self._first_tries]
        self._seeded |= {self._key({**self.incumbent, **seed}) for seed in seeds}
        self._score = self._proposals.begin(self.incumbent, self._score, seeds)

    def _possible(self, seed: Values) -> dict[str, int]:
        """Return the possible values of a seed; one outside the space becomes the incumbent's, if that is inside."""
        candidates = {name: (seed.get(name, self.incumbent[name]), self.incumbent[name]) for name in self._space}
        fitting = {
            name: [value for value in values if fits(value, self._space[name])] for name, values in candidates.items()
        }
        return self._proposals.within_limits({name: values[0] for name, values in fitting.items() if values})

    def _next(self) -> Values | None:
        """Return a challenger; ``None`` at the end, with the incumbent running."""
        if self._contest is not None:
            return self._run(self._contest.values)
        if len(self.trials) >= self._most_trials or self._rematch or self._is_doubtful:
            return self._finish()
        if self._nothing_to_gain():
            return self._next_leaner()
        challenger = self._proposal()
        if challenger is None:
            return self._finish()
        return self._begin(Contest(challenger, is_seed=self._key(challenger) in self._seeded))

    def _proposal(self) -> Values | None:
        """Ask Optuna for a setting that was not tried yet; ``None`` if all its proposals were.

        Waiting seeds come first. Then every other trial is one step from the incumbent, and so is one for which the
        sampler repeats itself.
        """
        for repeated in range(_REPEATED_PROPOSALS):
            if repeated or len(self.trials) % 2:
                self._enqueue_step()
            proposed = self._proposals.ask()
            if proposed is None:
                break
            challenger = {**self.incumbent, **proposed}
            if self._key(challenger) not in self._tried:
                self._tried.add(self._key(challenger))
                return challenger
            self._proposals.tell(None)
        return None

    def _enqueue_step(self) -> None:
        """Make the study propose a setting one step from the incumbent, if no other setting waits to be tried."""
        for step in neighbours(self.incumbent, self._space):
            possible = self._possible(step)
            if self._key({**self.incumbent, **possible}) not in self._tried:
                self._proposals.enqueue(possible)
                return

    def _next_leaner(self) -> Values | None:
        """Return the incumbent with one smaller number; ``None`` at the end, with the incumbent running."""
        for name, challenger in leaner(self.incumbent, self._space, self._settled):
            if self._key(challenger) in self._tried:
                continue
            self._tried.add(self._key(challenger))
            return self._begin(Contest(challenger, leaner=name))
        return self._finish()

    def _finish(self) -> Values | None:
        """Return the first knobs, to challenge the best ones again; at the end ``None``, with the incumbent running.

        Some settings were kept because they won by chance. So the first knobs are restored if they win two matches of
        three.
        """
        if self.incumbent == self.original or self._met_again:
            self.stop()
            return None
        return self._begin(Contest(self.original))

    @property
    def _met_again(self) -> bool:
        """Whether it is decided which of the best and the first knobs are better."""
        return any(self._rematch.count(won) == _DECIDING for won in (True, False))

    @property
    def _is_doubtful(self) -> bool:
        """Whether the last window of what was kept has far fewer steps a second than the first of all."""
        if self.incumbent == self.original or self.first is None or self.last is None:
            return False
        return self.last.rate < (1 - _UNSTEADY) * self.first.rate

    def _may_be_kept(self, challenge: Window) -> bool:
        if self._before is None or self._contest is None:
            return False
        measure = measure_of(self.objective, [self._before, challenge])
        return measure(challenge) > measure(self._before) * (1 + self._contest.wanted)

    def _is_unsteady(self, after: Window) -> bool:
        return self._before is not None and not 1 / (1 + _UNSTEADY) < after.rate / self._before.rate < 1 + _UNSTEADY

    def _judge(self, after: Window) -> None:
        assert self._before is not None
        assert self._challenge is not None
        assert self._contest is not None
        contest = self._contest
        windows = (self._before, self._challenge, after)
        match = compare(*windows, measure_of(self.objective, windows))
        self._loss_budget.tried(self._challenge, (self._before.rate + after.rate) / 2)
        self._challenge = None
        contest.matches.append(match)
        if contest.values == self.original:
            self._contest = None
            self._rematch.append(match.gain > LEAST_GAIN or match.rate > max(match.drift, LEAST_GAIN))
            if self._rematch.count(True) == _DECIDING:
                self._go_back()
        elif contest.is_decided:
            self._contest = None
            self._end_contest(contest)

    def _end_contest(self, contest: Contest) -> None:
        outcome, kept = contest.so_far, contest.is_won
        if contest.leaner is None:
            self._proposals.tell(self._score * (1 + outcome.gain))
        elif not kept:
            self._settled.add(contest.leaner)
        if kept:
            self.incumbent = dict(contest.values)
            self._score *= 1 + outcome.gain
            self._just_won = outcome.rate
            self._loss_budget.sped_up(outcome.rate)
        number, is_lean = len(self.trials) + 1, contest.leaner is not None
        self._note(Trial(number, contest.values, outcome.gain, outcome.noise, kept, outcome.seconds, is_lean))

    def _note(self, trial: Trial) -> None:
        self.trials.append(trial)
        if self._on_trial:
            self._on_trial(trial)

    def _nothing_to_gain(self) -> bool:
        """Return whether the consumer hardly waits; a rate has no such ceiling."""
        return self.objective != "rate" and self.last is not None and self.last.busy >= _NOTHING_TO_GAIN

    def _begin(self, contest: Contest) -> Values:
        self._contest = contest
        return self._run(contest.values)

    def _run(self, values: Values) -> Values:
        self.running = dict(values)
        return values

    def _key(self, values: Values) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(values.items()))
