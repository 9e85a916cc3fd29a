"""The space used when none is named: parallel calls and threads from one to far above the cores, small buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autopipe.search_spaces._base import choices, doubling, per_core

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["default"]


def default(knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
    """Return the knobs that matter most, each also with its present value and with TensorFlow's own choice.

    Parallel calls and threads reach thirty-two times the cores: a stage that waits for storage, rather than computes,
    gains from many more of both than there are cores. So does the number of files read in turn, where their order is
    free.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> default([Knob("prefetch.buffer_size", "buffer_size", 3)], machine)["prefetch.buffer_size"].choices
    (-1, 1, 2, 3, 4, 8, 16)
    """
    return choices(
        knobs,
        {
            "*.num_parallel_calls": per_core(machine, 32),
            "*.use_unbounded_threadpool": (0, 1),
            "interleave*.cycle_length": per_core(machine, 16),
            "prefetch*.buffer_size": doubling(1, 16),
            "thread_pool.size": [threads for threads in per_core(machine, 32) if threads >= round(machine.cores)],
        },
    )
