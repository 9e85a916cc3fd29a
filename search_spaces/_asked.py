"""The result of a space, checked: it may be a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from autopipe.errors import ArgumentError
from autopipe.search_spaces._base import SearchSpace
from autopipe.search_spaces.from_toml import Written

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["ask"]

_LAW = "A search space must give a CategoricalDistribution or IntDistribution of Optuna by the name of each knob"


def ask(space: SearchSpace, knobs: Sequence[Knob], machine: Machine, *, others: Sequence[Knob] = ()) -> dict[str, Any]:
    """Return the distributions that a space gives the knobs of a pipeline.

    Args:
        space: the space.
        knobs: those of the pipeline.
        machine: this machine, with its real cores and memory.
        others: the knobs of other structures of the pipeline, which a file may name as well.

    Raises:
        ArgumentError: if the space takes other arguments, returns something that no search can try, or is a file that
            names an unknown knob.
        KnobError: if it names a value that the knob cannot have.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> ask(lambda knobs, machine: {"calls": 3}, [Knob("calls", "calls", 1)], Machine.here())
    Traceback (most recent call last):
    ...
    autopipe.errors.ArgumentError: A search space must give a CategoricalDistribution or IntDistribution of Optuna \
by the name of each knob, but gave 3 for 'calls'.
    """
    _refuse_other_arguments(space, knobs, machine)
    if isinstance(space, Written):
        space.refuse_unmatched([*knobs, *others])
    found = space(knobs, machine)
    if not isinstance(found, Mapping):
        raise ArgumentError(f"{_LAW}, but gave {found!r}.")
    known = {knob.name: knob for knob in knobs}
    for name, distribution in found.items():
        if name not in known:
            raise ArgumentError(f"{_LAW}, but gave one for {name!r}. The knobs: {', '.join(known) or 'none'}.")
        for value in _bounds(name, distribution):
            known[name].check(value)
    return {name: _of_whole_numbers(distribution) for name, distribution in found.items()}


def _refuse_other_arguments(space: Any, *given: Any) -> None:
    try:
        inspect.signature(space).bind(*given)
    except (TypeError, ValueError) as error:
        # Functions written in C may have no signature.
        raise ArgumentError(
            f"A search space must be a function of the knobs and the machine, but got {space!r} ({error})."
        ) from None


def _of_whole_numbers(distribution: Any) -> Any:
    """Return a distribution whose choices are Python's numbers: they may be NumPy's, which JSON does not support."""
    from optuna.distributions import CategoricalDistribution

    choices = getattr(distribution, "choices", None)
    return distribution if choices is None else CategoricalDistribution([index(choice) for choice in choices])


def _bounds(name: str, distribution: Any) -> Sequence[Any]:
    """Return values that a distribution may give: all of them, or the smallest and the largest."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    match distribution:
        case CategoricalDistribution(choices=choices):
            return choices
        case IntDistribution(low=low, high=high):
            return low, high
    raise ArgumentError(f"{_LAW}, but gave {distribution!r} for {name!r}.")
