"""What one process does in a study: it asks for settings, compares them with the reference, and tells."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from autopipe.errors import SearchError
from autopipe.tuning.offline.choices import Choice, Choices
from autopipe.tuning.offline.workbench import TrialFailedError, Workbench
from autopipe.tuning.search.trial import Trial
from autopipe.tuning.studies import complete, fail_abandoned, signed, tell

__all__ = ["PAIRS", "Session"]

PAIRS = 3
_FINALISTS = 3
_MOST_FINAL_PAIRS = 21
# The speedup that is stated is the median of this many pairs, so that a gain within the usual scatter of machines does
# not seem a loss by chance.
_PAIRS_TO_STATE = 7
# A challenger wins a final when it leads by this many pairs, and loses it when it trails by this many.
_WINNING_LEAD, _LOSING_LEAD = 5, 2
# The least gain in one pair that cannot be noise; for n pairs it is divided by n squared.
_CLEAR_GAIN = 2.0
# A challenger at less than this share of the reference's speed needs no second turn.
_HOPELESS = 0.7
_LEAST_GAIN = 0.01
# This many failed trials are not bad luck if no trial has come to an end.
_MOST_FAILED = 5
_TAKEN_FOR_GONE = "another process took this one for dead"


@dataclass
class Session:
    """The part of this process in a study that others may share.

    Attributes:
        choices: what to choose among.
        given: the reference that every challenger is compared with.
        bench: where they are compared.
        study: an Optuna study.
        on_trial: called with each trial that comes to an end here.
        seeded: whether a new study begins with what helps most often.
    """

    choices: Choices
    given: Choice
    bench: Workbench
    study: Any
    on_trial: Callable[[Trial], None] | None = None
    seeded: bool = True
    _failures: list[str] = field(default_factory=list, init=False)

    def search(self, trials: int, deadline: float) -> None:
        """Run trials until this many have ended in the study, in all processes, or the time is up.

        Raises:
            ArgumentError: if the study chose among something else before.
            SearchError: if trials failed here, and no trial came to an end anywhere.
        """
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        if self.seeded and all(trial.state is TrialState.FAIL for trial in self.study.get_trials(deepcopy=False)):
            for parameters in self.choices.to_try_first():
                self.study.enqueue_trial(parameters, skip_if_exists=True)
        while self._goes_on(trials, deadline):
            # Another process may have begun it meanwhile.
            self.choices.refuse_other_choices(self.study)
            trial = self.study.ask()
            with suppress(UpdateFinishedTrialError), signed(trial):
                self._run(trial)
        if self._failures and not complete(self.study):
            raise SearchError(
                f"At least one trial of a search must end, but all "
                f"{len(self._failures)} failed, the last because {self._failures[-1]}. Mend that, or give trials more "
                "time."
            )

    def final(self, deadline: float) -> tuple[Choice, dict[str, Any]]:
        """Compare the best of the study again, with what was given and with each other; return the winner.

        They are also the best of many by chance, so each has to win a match against the best so far. It is a sequential
        test (Wald, "Sequential Tests of Statistical Hypotheses", 1945) of which setting wins the pairs: one that makes
        4% fewer steps on a machine that scatters by 10% wins one such match in thirty. An undecided match is not won.

        Returns:
            The winner, or what was given, and its measurements.
        """
        best = self.given
        for choice in self._finalists():
            won = self._won_match(best, choice, deadline)
            if won and statistics.median(won) > 1 + _LEAST_GAIN:
                best = choice
        tried = {"objective": "speed", "trials": complete(self.study)}
        # A match ends once it is won: its pairs flatter the winner.
        ratios = [] if best == self.given else self._against_given(best, deadline)
        if not ratios or statistics.median(ratios) < 1:
            return self.given, tried
        spread = {"lowest": min(ratios), "highest": max(ratios)}
        return best, {**tried, "before": 1.0, "after": statistics.median(ratios), **spread}

    def _goes_on(self, trials: int, deadline: float) -> bool:
        """Mark the trials of dead processes as failed, and return whether another trial is to run."""
        fail_abandoned(self.study)
        ended = complete(self.study)
        all_fail = not ended and len(self._failures) >= _MOST_FAILED
        return ended < trials and not all_fail and time.monotonic() < deadline

    def _run(self, trial: Any) -> None:
        from optuna.exceptions import UpdateFinishedTrialError

        choice = self.choices.ask(trial)
        ratios: list[float] = []
        seconds = 0.0
        failure = ""
        try:
            for pair in islice(self.bench.pairs(self.given, choice), PAIRS):
                ratios.append(pair.ratio)
                seconds += pair.seconds
                trial.report(pair.ratio, len(ratios))
                if pair.ratio < _HOPELESS or (len(ratios) < PAIRS and trial.should_prune()):
                    break
        except TrialFailedError as why:
            failure = str(why)
        except UpdateFinishedTrialError:
            failure = _TAKEN_FOR_GONE
        told = tell(self.study, trial, None if failure else statistics.median(ratios))
        if not failure and not told:
            failure = _TAKEN_FOR_GONE
        if failure:
            self._failures.append(failure)
        if self.on_trial:
            self.on_trial(self._account(choice, ratios, failure, seconds))

    def _account(self, choice: Choice, ratios: list[float], failure: str, seconds: float) -> Trial:
        gain = statistics.median(ratios) - 1 if ratios else -1.0
        noise = max(ratios) - min(ratios) if ratios else 0.0
        best = max((each.value for each in self._completed()), default=0.0)
        kept = not failure and 1 + gain >= max(best, 1 + _LEAST_GAIN)
        knobs = {name: value for name, value in choice.knobs.items() if value != self.given.knobs.get(name)}
        # Counted among the ended trials of all processes; a failed trial is repeated under its number.
        number = complete(self.study) + bool(failure)
        return Trial(number, knobs, gain, noise, kept, seconds, failure=failure, structure=choice.structure)

    def _completed(self) -> list[Any]:
        from optuna.trial import TrialState

        return list(self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))

    def _finalists(self) -> list[Choice]:
        """Return the best settings of the study, from all processes."""
        ranked = sorted(self._completed(), key=lambda trial: trial.value, reverse=True)
        found: list[Choice] = []
        for trial in ranked:
            choice = self.choices.of_trial(trial)
            if choice is not None and choice not in found and trial.value > 1:
                found.append(choice)
        return found[:_FINALISTS]

    def _won_match(self, best: Choice, choice: Choice, deadline: float) -> list[float]:
        """Return the pairs of a match that was won; empty if it was lost, or is undecided."""
        ratios: list[float] = []
        with suppress(TrialFailedError):
            for pair in islice(self.bench.pairs(best, choice), _MOST_FINAL_PAIRS):
                ratios.append(pair.ratio)
                if _is_won(ratios):
                    return ratios
                if _lead(ratios) <= -_LOSING_LEAD or time.monotonic() > deadline:
                    break
        return []

    def _against_given(self, best: Choice, deadline: float) -> list[float]:
        """Return pairs of the winner against the original: at least one, or none if it cannot be measured any more."""
        ratios: list[float] = []
        with suppress(TrialFailedError):
            for pair in islice(self.bench.pairs(self.given, best), _PAIRS_TO_STATE):
                ratios.append(pair.ratio)
                if time.monotonic() > deadline:
                    break
        return ratios


def _is_won(ratios: list[float]) -> bool:
    is_clear = min(ratios) > 1 + _CLEAR_GAIN / len(ratios) ** 2
    return is_clear or _lead(ratios) >= _WINNING_LEAD


def _lead(ratios: list[float]) -> int:
    """Return how many more pairs were won than lost."""
    return sum(1 if ratio > 1 else -1 for ratio in ratios)
