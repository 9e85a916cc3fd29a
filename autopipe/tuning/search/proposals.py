"""What a study proposes to a search inside training, which does not end where the study cannot be reached any more."""

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

# What Optuna says where a sampler that has proposed all there is would stop a search of Optuna's.
_EXHAUSTED = "Study.stop"


class Proposals:
    """Asks a study, one proposal at a time, and tells it what came of that; one that fails is only warned of.

    Args:
        study: an Optuna study; by default one of its own, in memory.
        space: what each knob may be, as Optuna distributions.
        seed: for the sampler of its own study.
        most: by its name, the most that a knob may be on this machine. The study may propose more, since the space is
            the same wherever it goes on, and is told what the most came to.
    """

    def __init__(self, study: Any, space: Mapping[str, Any], seed: int | None, most: Values | None = None) -> None:
        self._study = study
        self._space = dict(space)
        self._most = dict(most or {})
        self._seed = seed
        self._asked: Any = None
        self._is_over = False

    def begin(self, known: Values, score: float, first: Sequence[Values]) -> float:
        """Tell what runs already, and have the study propose some values before others.

        Returns:
            What that scored: in a study that goes on, what it was told to.
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
        """Return what the study was told of some values; told now, where it was not yet."""
        import optuna

        completed = self._study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        scores = [trial.value for trial in completed if trial.params == current and trial.value > 0]
        if scores:
            return float(scores[-1])
        self._study.add_trial(optuna.trial.create_trial(params=current, distributions=self._space, value=score))
        return score

    def enqueue(self, values: Values) -> None:
        """Have the study propose values next, if nothing else waits to be tried."""
        from optuna.trial import TrialState

        if self._is_over:
            return
        with self._reaching_study():
            if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                self._study.enqueue_trial(values)

    def ask(self) -> Values | None:
        """Return the next proposal; ``None`` where there are no more."""
        if self._is_over:
            return None
        with self._reaching_study():
            self._asked = self._study.ask(self._space)
        return None if self._asked is None else self.within_limits(self._asked.params)

    def within_limits(self, values: Values) -> dict[str, int]:
        """Return the values as far as the machine allows them."""
        return within(self._most, values, self._space)

    def tell(self, value: float | None) -> None:
        """Tell what the last proposal came to, ``None`` for nothing, if that was not told yet."""
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
