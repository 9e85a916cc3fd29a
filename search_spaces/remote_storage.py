"""A space for files and objects that take long to arrive and little to compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autopipe.search_spaces._base import choices, doubling, per_core

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["remote_storage"]

_CALLS_PER_CORE = 64
_SHARE_OF_MEMORY = 8
_KIB, _MIB = 2**10, 2**20


def remote_storage(knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
    """Return far more calls, threads and files at once than there are cores, and large buffers to read into.

    The buffers of all files read at once take at most an eighth of the available memory.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> remote_storage([Knob("interleave[read].cycle_length", "cycle_length", 16, automatic=None)], machine)
    {'interleave[read].cycle_length': CategoricalDistribution(choices=(1, 2, 4, 8, 16, 32, 64, 128))}
    """
    at_once = per_core(machine, _CALLS_PER_CORE)
    most_bytes = machine.available_bytes // _SHARE_OF_MEMORY // at_once[-1]
    return choices(
        knobs,
        {
            "*.num_parallel_calls": at_once,
            "*.use_unbounded_threadpool": (0, 1),
            "interleave*.cycle_length": at_once,
            "interleave*.block_length": doubling(1, 16),
            "prefetch*.buffer_size": doubling(1, 64),
            "*_files*.buffer_size": doubling(64 * _KIB, min(16 * _MIB, most_bytes)),
            "thread_pool.size": at_once,
        },
    )
