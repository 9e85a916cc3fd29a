"""Every knob, for a search that has the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autopipe.search_spaces._base import choices, doubling, matches, per_core

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["throughput"]

_CALLS_PER_CORE = 32
_SHARE_OF_MEMORY = 4
_KIB, _MIB = 2**10, 2**20


def throughput(knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
    """Return all knobs, over ranges as wide as the machine allows.

    A shuffle holds up to four times what its author declared, which mixes better and is no faster. The buffers of all
    files read at once take at most a quarter of the available memory.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> throughput([Knob("shuffle.buffer_size", "buffer_size", 500, automatic=None, least=500)], machine)
    {'shuffle.buffer_size': CategoricalDistribution(choices=(500, 1000, 2000))}
    """
    at_once = per_core(machine, _CALLS_PER_CORE)
    most_bytes = machine.available_bytes // _SHARE_OF_MEMORY // at_once[-1]
    shuffles = [knob for knob in knobs if matches("shuffle*.buffer_size", knob.name)]
    return choices(
        knobs,
        {
            **{knob.name: doubling(knob.least, 4 * knob.least) for knob in shuffles},
            "*.num_parallel_calls": at_once,
            "*.use_unbounded_threadpool": (0, 1),
            "interleave*.cycle_length": at_once,
            "interleave*.block_length": doubling(1, 16),
            "prefetch*.buffer_size": doubling(1, 64),
            "*_files*.buffer_size": doubling(16 * _KIB, min(8 * _MIB, most_bytes)),
            "thread_pool.size": at_once,
            "thread_pool.max_intra_op_parallelism": per_core(machine, 1),
        },
    )
