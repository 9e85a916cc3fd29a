"""How much of a proposal there may be on this machine: the threads it starts are only so many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine
from autopipe.tuning.search.distributions import AUTOMATIC, listed

__all__ = ["most_threads", "within"]

# Each iterator has threads of its own: there is that of the training, of its next epoch, and of a validation, and one
# that is on its way out.
_ITERATORS = 4
# Where each map has threads of its own, AUTOTUNE makes so many calls for each of the pool's, of which there are up to
# so many for each core.
_CALLS_PER_THREAD = 10
_THREADS_PER_CORE = 32
_STARTS_THREADS = frozenset({"cycle_length", "num_parallel_calls", "size"})


def most_threads(knobs: Sequence[Knob], left: int, machine: Machine) -> dict[str, int]:
    """Return, by its name, the most that each knob may be which decides how many threads there are.

    All may be at their most together, in all iterators. TensorFlow ends the process where it cannot start one. What a
    knob is already it may be.

    Args:
        knobs: those of the pipeline.
        left: how many threads the process can still start.
        machine: the cores there really are.

    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> knobs = [
    ...     Knob("map[load].num_parallel_calls", "num_parallel_calls", 8),
    ...     Knob("map[load].use_unbounded_threadpool", "use_unbounded_threadpool", 0, automatic=0, most=1, least=0),
    ...     Knob("prefetch.buffer_size", "buffer_size", 8),
    ...     Knob("thread_pool.size", "size", 0, automatic=0),
    ... ]
    >>> most_threads(knobs, 48, machine)
    {'map[load].num_parallel_calls': 8, 'map[load].use_unbounded_threadpool': 0, 'thread_pool.size': 6}
    """
    starting = [knob for knob in knobs if knob.field in _STARTS_THREADS]
    share = left // _ITERATORS // max(len(starting), 1)
    most = {knob.name: max(share, knob.value) for knob in starting}
    are_enough = share >= _CALLS_PER_THREAD * _THREADS_PER_CORE * machine.cores
    switches = [knob for knob in knobs if knob.field == "use_unbounded_threadpool"]
    most |= {knob.name: 1 if are_enough else knob.value for knob in switches}
    return {knob.name: most[knob.name] for knob in knobs if knob.name in most}


def within(most: Mapping[str, int], values: Mapping[str, int], space: Mapping[str, Any]) -> dict[str, int]:
    """Return the values, each that is above its limit as the largest below that its knob may be; none if there is none.

    >>> from optuna.distributions import CategoricalDistribution
    >>> space = {"calls": CategoricalDistribution((-1, 1, 4, 64)), "size": CategoricalDistribution((0, 16, 64))}
    >>> within({"calls": 6, "size": 6}, {"calls": 64, "size": 64}, space)
    {'calls': 4}
    """
    found = {}
    for name, value in values.items():
        limit = most.get(name, value)
        possible = [value] if value <= limit else _up_to(limit, space[name])
        if possible:
            found[name] = max(possible)
    return found


def _up_to(limit: int, distribution: Any) -> list[int]:
    if getattr(distribution, "choices", None) is not None:
        return [value for value in listed(distribution) - AUTOMATIC if value <= limit]
    below = limit - distribution.low
    return [limit - below % distribution.step] if below >= 0 else []
