"""How long is waited for the end of an iterator: by who drops it, and by who has it go on over another pipeline."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import tensorflow as tf

import autopipe
from autopipe.runtime.repoint import repoint, state_of
from benchmarks.measuring import reordered

__all__ = ["DROPPED", "OURS_DROPPED", "OURS_SWAPPED", "SWAPPED", "EndsResult", "measure_ends"]

DROPPED, OURS_DROPPED = "an iterator of `tf.data` is dropped", "an iterator of an optimized dataset is dropped"
SWAPPED, OURS_SWAPPED = "an iterator is swapped, and waits", "an optimized dataset swaps it"

# An iterator that was swapped is another thing to swap: it was given a state.
_SWAPS = 2


@dataclass(frozen=True)
class EndsResult:
    """Seconds for which the thread that trains was held up.

    Attributes:
        read_seconds: how long each iterator was read before.
        waits: by what was done, one for each time.
    """

    read_seconds: float
    waits: Mapping[str, tuple[float, ...]]


def measure_ends(read_seconds: float, rounds: int, on_turn: Callable[[str], None] = lambda turn: None) -> EndsResult:
    """Read iterators for some time, end each in one way, and time that; the ways take turns."""
    calls = itertools.cycle((1, 2))
    plain = _numbers(2)
    # Functions are traced before the clock starts, as those of the optimized dataset are.
    others = itertools.cycle((_numbers(1), plain))
    optimized = autopipe.optimize(plain, rules=[])
    (knob,) = (name for name in optimized.knobs if name.endswith("num_parallel_calls"))

    def dropped(dataset: tf.data.Dataset) -> list[float]:
        iterator = iter(dataset)
        _read(iterator, read_seconds)
        began = time.perf_counter()
        del iterator
        return [time.perf_counter() - began]

    def swapped(dataset: tf.data.Dataset, swap: Callable[[Iterator[object]], object]) -> list[float]:
        iterator, seconds = iter(dataset), []
        for _ in range(_SWAPS):
            _read(iterator, read_seconds)
            began = time.perf_counter()
            swap(iterator)
            seconds.append(time.perf_counter() - began)
        return seconds

    ways: Mapping[str, Callable[[], list[float]]] = {
        DROPPED: lambda: dropped(plain),
        OURS_DROPPED: lambda: dropped(optimized),
        SWAPPED: lambda: swapped(plain, lambda iterator: repoint(iterator, state_of(iterator), next(others))),
        OURS_SWAPPED: lambda: swapped(optimized, lambda iterator: optimized.retune({knob: next(calls)})),
    }
    waits: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in reordered(list(ways), number):
            on_turn(name)
            waits[name] += ways[name]()
    return EndsResult(read_seconds, {name: tuple(each) for name, each in waits.items()})


def _numbers(calls: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(10**12).map(lambda x: x + 1, num_parallel_calls=calls).batch(1000).prefetch(2)


def _read(iterator: Iterator[object], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        next(iterator)
