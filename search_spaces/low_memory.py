"""A space for a machine whose memory is needed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autopipe.search_spaces._base import choices, doubling, per_core

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["low_memory"]

_KIB = 2**10


def low_memory(knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
    """Return small buffers, and no more calls at once than there are cores.

    TensorFlow's own choice is left out, since it takes as much memory as it finds.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> machine = Machine(cores=4, memory_bytes=2**31, available_bytes=2**29, host="here")
    >>> low_memory([Knob("map[load].num_parallel_calls", "num_parallel_calls", -1)], machine)
    {'map[load].num_parallel_calls': CategoricalDistribution(choices=(1, 2, 4))}
    """
    return choices(
        knobs,
        {
            "*.num_parallel_calls": per_core(machine, 1),
            "interleave*.cycle_length": per_core(machine, 1),
            "prefetch*.buffer_size": (1, 2),
            "*_files*.buffer_size": doubling(16 * _KIB, 128 * _KIB),
            "thread_pool.size": per_core(machine, 1),
        },
        strict=True,
    )
