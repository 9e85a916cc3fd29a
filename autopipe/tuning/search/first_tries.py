"""What a search tries first, whatever the space: the settings that help most often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine

__all__ = ["first_tries"]

# A stage that waits gains most from the first pair; a stage that computes, from the others.
_CALLS_AND_THREADS_PER_CORE = ((32, 32), (16, 2), (1, 1))
# Threads of the pool per core if each map brings its own: TensorFlow derives AUTOTUNE's limit from the pool.
_THREADS_PER_CORE = 8


def first_tries(knobs: Sequence[Knob], machine: Machine) -> list[dict[str, int]]:
    """Return the settings a search should try first: fewer and fewer calls and threads at once, then a lean one.

    Where computing is the limit, spare calls keep a few threads busy, and more threads get into each other's way. The
    second setting leaves the calls to AUTOTUNE, with separate threads for each map: TensorFlow then makes up to ten
    times as many calls as the pool has threads, and fewer where computing is the limit.

    Each setting names all knobs, also those that stay unchanged. The setting that the pipeline already has is left out.

    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> calls = Knob("map[load].num_parallel_calls", "num_parallel_calls", -1)
    >>> buffer = Knob("prefetch.buffer_size", "buffer_size", 8)
    >>> for values in first_tries([calls, buffer], machine):
    ...     print(values)
    {'map[load].num_parallel_calls': 64, 'prefetch.buffer_size': 8}
    {'map[load].num_parallel_calls': 32, 'prefetch.buffer_size': 8}
    {'map[load].num_parallel_calls': 2, 'prefetch.buffer_size': 8}
    {'map[load].num_parallel_calls': 1, 'prefetch.buffer_size': 1}
    """
    now = {knob.name: knob.value for knob in knobs}
    cores = max(1, round(machine.cores))
    found = [now]
    most, *fewer = (_at_once(knobs, calls * cores, threads * cores) for calls, threads in _CALLS_AND_THREADS_PER_CORE)
    for changes in (most, _threads_of_their_own(knobs, cores), *fewer, _lean(knobs)):
        values = now | dict(changes)
        if values not in found:
            found.append(values)
    return found[1:]


def _at_once(knobs: Sequence[Knob], calls: int, threads: int) -> Iterator[tuple[str, int]]:
    for knob in knobs:
        if knob.field == "num_parallel_calls":
            yield knob.name, knob.clipped(calls)
        elif knob.field == "size":
            yield knob.name, knob.clipped(threads)


def _threads_of_their_own(knobs: Sequence[Knob], cores: int) -> Iterator[tuple[str, int]]:
    """Yield AUTOTUNE calls that the pool does not limit, if there is a map that can bring its own threads."""
    if not any(knob.field == "use_unbounded_threadpool" for knob in knobs):
        return
    for knob in knobs:
        if knob.field == "use_unbounded_threadpool":
            yield knob.name, 1
        elif knob.field == "num_parallel_calls" and knob.automatic is not None:
            yield knob.name, knob.automatic
        elif knob.field == "size":
            yield knob.name, knob.clipped(_THREADS_PER_CORE * cores)


def _lean(knobs: Sequence[Knob]) -> Iterator[tuple[str, int]]:
    """Yield one call for each stage, and one element ahead."""
    for knob in knobs:
        if knob.field == "num_parallel_calls" or knob.name.startswith("prefetch"):
            yield knob.name, knob.clipped(1)
