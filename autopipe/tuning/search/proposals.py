"""The proposals of a study for a search inside training, which goes on if the study cannot be reached any more."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from autopipe.errors import StorageError
from autopipe.tuning.search.distributions import fits
from autopipe.tuning.search.limits import within
from autopipe.tuning.search.trial import Values
from autopipe.tuning.studies import open_study, quiet_optuna, reaching_storage, tell

__all__ = ["Proposals"]

# Optuna's message has this if a sampler has proposed everything and would stop a search of Optuna's own.
_EXHAUSTED = "Study.stop"


class Proposals:
    """Asks a study for one proposal at a time, and tells it the result; if the study fails, this only warns.

    Args:
        study: an Optuna study; by default a new one in memory.
        space: what each knob may be, as Optuna distributions.
        seed: for the sampler of a new study.
        most: the largest value of each knob on this machine, by its name. The study may propose more, since its space
            is the same on all machines; it is then told the result of the largest value.
    """

    def __init__(self, study: Any, space: Mapping[str, Any], seed: int | None, most: Values | None = None) -> None:
        self._study = study
        self._space = dict(space)
        self._most = dict(most or {})
        self._seed = seed
        self._asked: Any = None
        self._is_over = False

    def begin(self, known: Values, score: float, first: Sequence[Values]) -> float:
        """Tell the study what runs already, and make it propose some values before others.

        Returns:
        The score of what runs: in a study that is continued, the score it was told before.
        """
        with quiet_optuna(), self._reaching_study():
            if self._study is None:
                self._study = open_study(seed=self._seed)
            if all(fits(known[name], distribution) for name, distribution in self._space.items()):
                score = self._told({name: known[name] for name in self._space}, score)
            for values in first:
                self._study.enqueue_trial(values, skip_if_exists=True)
        return score

    def _told(self, current: dict[str, int], score: float) -> float:
        """Return the score that the study was told for some values; tell it now if it was not yet."""
        import optuna

        completed = self._study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        scores = [trial.value for trial in completed if trial.params == current and trial.value > 0]
        if scores:
            return float(scores[-1])
        self._study.add_trial(optuna.trial.create_trial(params=current, distributions=self._space, value=score))
        return score

    def enqueue(self, values: Values) -> None:
        """Make the study propose these values next, if no others wait to be tried."""
        from optuna.trial import TrialState

        if self._is_over:
            return
        with self._reaching_study():
            if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                self._study.enqueue_trial(values)

    def ask(self) -> Values | None:
        """Return the next proposal; ``None`` if there are no more."""
        if self._is_over:
            return None
        with self._reaching_study():
            self._asked = self._study.ask(self._space)
        return None if self._asked is None else self.within_limits(self._asked.params)

    def within_limits(self, values: Values) -> dict[str, int]:
        """Return the values, lowered to what the machine allows."""
        return within(self._most, values, self._space)

    def tell(self, value: float | None) -> None:
        """Tell the result of the last proposal, ``None`` if it failed, unless it was told already."""
        asked, self._asked = self._asked, None
        if asked is not None:
            with self._reaching_study():
                tell(self._study, asked, value)

    @contextmanager
    def _reaching_study(self) -> Iterator[None]:
        try:
            with reaching_storage(whatever=True):
                yield
        except StorageError as lost:
            if _EXHAUSTED in str(lost.__cause__) and isinstance(lost.__cause__, RuntimeError):
                self._is_over = True
                return
            if not self._is_over:
                warnings.warn(f"{lost} Meanwhile training goes on with the best knobs so far.", stacklevel=2)
            self._is_over = True
