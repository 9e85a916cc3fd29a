"""The space used when none is named: parallel calls and threads from one to far above the cores, small buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autopipe.planning.machine import Machine

__all__ = ["default"]

_AUTOTUNE = -1


def default(knobs: Mapping[str, int], machine: Machine) -> dict[str, Any]:
    """Return powers of two for each knob, its present value among them.

    Parallel calls and threads reach sixteen times the cores: a stage that waits for storage, rather than computes,
    gains from many more of both than there are cores. AUTOTUNE stays a choice.

    >>> from autopipe.planning.machine import Machine
    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> default({"prefetch.buffer_size": -1}, machine)["prefetch.buffer_size"].choices
    (-1, 1, 2, 4, 8, 16)
    """
    from optuna.distributions import CategoricalDistribution

    cores = max(1, round(machine.cores))
    parallel = [_AUTOTUNE, *_powers(16 * cores)]
    choices = {
        "num_parallel_calls": parallel,
        "buffer_size": [_AUTOTUNE, *_powers(16)],
        "size": [0, *(threads for threads in _powers(16 * cores) if threads >= cores)],
    }
    return {
        name: CategoricalDistribution(sorted({*choices[name.rsplit(".", 1)[-1]], value}))
        for name, value in knobs.items()
    }


def _powers(most: int) -> list[int]:
    return [2**exponent for exponent in range(most.bit_length()) if 2**exponent <= most]
