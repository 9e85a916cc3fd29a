"""What a knob may be: the same questions for both kinds of distributions that spaces are made of."""

from __future__ import annotations

from typing import Any

__all__ = ["AUTOMATIC", "SWITCH", "fits", "listed", "suggest"]

AUTOMATIC = frozenset({-1, 0})
"""The values that leave a number to TensorFlow; for a switch, 0 is off."""

SWITCH = frozenset({0, 1})
"""The values of a switch."""


def fits(value: int | None, distribution: Any) -> bool:
    """Return whether a value is one that a distribution may give.

    >>> from optuna.distributions import CategoricalDistribution, IntDistribution
    >>> fits(4, CategoricalDistribution((1, 4))), fits(5, IntDistribution(1, 4)), fits(2, IntDistribution(1, 5, step=2))
    (True, False, False)
    """
    if value is None:
        return False
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        return value in choices
    return bool(distribution.low <= value <= distribution.high and (value - distribution.low) % distribution.step == 0)


def listed(distribution: Any) -> set[int]:
    """Return the values that a distribution lists; empty if it is a range.

    >>> from optuna.distributions import CategoricalDistribution, IntDistribution
    >>> listed(CategoricalDistribution((1, 4))), listed(IntDistribution(1, 4))
    ({1, 4}, set())
    """
    return set(getattr(distribution, "choices", ()))


def suggest(trial: Any, name: str, distribution: Any) -> int:
    """Let a trial of Optuna choose a value.

    >>> import optuna
    >>> suggest(optuna.trial.FixedTrial({"calls": 3}), "calls", optuna.distributions.IntDistribution(1, 4))
    3
    """
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        return int(trial.suggest_categorical(name, choices))
    return int(
        trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    )
