"""What a search space is, and the building blocks of spaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["SearchSpace", "choices", "doubling", "matches", "per_core"]


class SearchSpace(Protocol):
    """Decides what each knob of a pipeline may be."""

    def __call__(self, knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
        """Return an Optuna distribution, by name, for each knob that is to be searched.

        Args:
            knobs: those of the pipeline, with their present values and limits.
            machine: this machine, with its real cores and memory.
        """
        ...


def choices(knobs: Sequence[Knob], values: Mapping[str, Iterable[int]], *, strict: bool = False) -> dict[str, Any]:
    """Return a choice for each knob whose name matches a pattern; the first pattern that matches applies.

    Args:
        knobs: those of the pipeline.
        values: what to try, by pattern, such as ``map*.num_parallel_calls``. Values a knob cannot have are left out.
        strict: whether to try nothing else. By default the knob's present value is tried too, and the one that leaves
            the number to TensorFlow.

    >>> from autopipe.pipeline.knobs import Knob
    >>> knob = Knob("interleave[read].num_parallel_calls", "num_parallel_calls", value=3, most=4)
    >>> choices([knob], {"*.num_parallel_calls": (1, 2, 4, 8)})["interleave[read].num_parallel_calls"].choices
    (-1, 1, 2, 3, 4)
    """
    from optuna.distributions import CategoricalDistribution

    space = {}
    for knob in knobs:
        wanted = next((each for pattern, each in values.items() if matches(pattern, knob.name)), ())
        possible = {value for value in wanted if knob.accepts(value)}
        if possible and not strict:
            possible |= {knob.value} | ({knob.automatic} if knob.automatic is not None else set())
        if possible - {knob.value}:
            space[knob.name] = CategoricalDistribution(sorted(possible))
    return space


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches the name of a knob: ``*`` stands for anything, and brackets for themselves.

    >>> matches("map[load]*.num_parallel_calls", "map[load]#2.num_parallel_calls")
    True
    """
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def doubling(least: int, most: int) -> list[int]:
    """Return ``least``, twice as many, and so on, up to ``most``.

    >>> doubling(3, 20)
    [3, 6, 12]
    """
    found = []
    while least <= most:
        found.append(least)
        least *= 2
    return found


def per_core(machine: Machine, times: int) -> list[int]:
    """Return 1, 2, 4 and so on below the number of cores, then the cores, twice as many, up to ``times`` as many.

    >>> from autopipe.planning.memory.machine import Machine
    >>> per_core(Machine(cores=6, memory_bytes=2**34, available_bytes=2**33, host="here"), times=4)
    [1, 2, 4, 6, 12, 24]
    """
    cores = max(1, round(machine.cores))
    return [*doubling(1, cores - 1), *doubling(cores, times * cores)]
