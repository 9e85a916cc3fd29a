"""The space used when none is named: parallel calls and threads from one to far above the cores, small buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.machine import Machine

__all__ = ["default"]

_LARGEST_BUFFER = 16
_CALLS_PER_CORE = 16


def default(knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
    """Return powers of two for each knob, with its present value and TensorFlow's own choice among them.

    Parallel calls and threads reach sixteen times the cores: a stage that waits for storage, rather than computes,
    gains from many more of both than there are cores.

    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.machine import Machine
    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> default([Knob("prefetch.buffer_size", "buffer_size", 3)], machine)["prefetch.buffer_size"].choices
    (-1, 1, 2, 3, 4, 8, 16)
    """
    from optuna.distributions import CategoricalDistribution

    cores = max(1, round(machine.cores))
    ranges = {
        "num_parallel_calls": (1, _CALLS_PER_CORE * cores),
        "buffer_size": (1, _LARGEST_BUFFER),
        "size": (cores, _CALLS_PER_CORE * cores),
    }
    space = {}
    for knob in knobs:
        least, most = ranges[knob.field]
        powers = _powers(least, min(most, knob.most or most))
        space[knob.name] = CategoricalDistribution(sorted({knob.automatic, *powers, knob.value}))
    return space


def _powers(least: int, most: int) -> list[int]:
    return [2**exponent for exponent in range(most.bit_length()) if least <= 2**exponent <= most]
