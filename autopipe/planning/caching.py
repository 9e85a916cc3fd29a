"""What it takes to make an element, and to read it from a cache."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.planning.samples import SAMPLE_BYTES, SAMPLE_SECONDS, without_buffers
from autopipe.rules import MeasurementError

__all__ = ["making_and_reading"]

_FEW = 8
_TIMED_ELEMENTS = 16 * 1024
# To time something well, it has to take so many times as long as it takes to start.
_CLEARLY = 4
_GROWTH = 4
_REPEATS = 8
# More than a sample ever has; of larger numbers TensorFlow keeps the low bits only.
_ALL = 10**9


def making_and_reading(node: ir.Node, element_bytes: float, folder: Path | None) -> tuple[float, float]:
    """Return the seconds it takes to make an element, and to read it from a cache in memory, or else in a folder."""
    made = build(without_buffers(node))
    few = _count(made.take(_FEW))
    if not few:
        raise MeasurementError("the pipeline has no elements")
    starting = min(_seconds(made.take(few)) for _ in range(2))
    most = min(_TIMED_ELEMENTS, int(SAMPLE_BYTES / max(element_bytes, 1)))
    if folder is None:
        return _from_memory(made, few, max(most, few), starting)
    with TemporaryDirectory(dir=folder, prefix="sample.") as place:
        count = max(few, min(int(few * SAMPLE_SECONDS / starting), most))
        return _from_disk(made.take(count).cache(f"{place}/data"), Path(place))


def _from_memory(made: Any, few: int, most: int, starting: float) -> tuple[float, float]:
    """Return the seconds to make an element, and to read it; what it takes to start a pipeline is left out.

    So many are made that this takes clearly longer than to start the pipeline, as far as time allows.
    """
    wanted = few
    while True:
        cached = made.take(wanted).cache()
        making, count = _seconds(cached), _count(cached)
        if count < wanted or wanted == most or making >= min(_CLEARLY * starting, SAMPLE_SECONDS / _GROWTH):
            break
        wanted = min(_GROWTH * wanted, most)
    each = (making - starting) / (count - few) if count >= 2 * few else making / count
    reading = _seconds(cached.repeat(1 + _REPEATS)) - _seconds(cached)
    return max(each, 0.0), max(reading, 0.0) / (_REPEATS * count)


def _from_disk(cached: Any, place: Path) -> tuple[float, float]:
    making, count = _seconds(cached), _count(cached)
    for file in place.iterdir():
        _forget(file)
    return making / count, _seconds(cached) / count


def _forget(file: Path) -> None:
    """Make the kernel read a file from the disk the next time, as it must one that is larger than memory."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _count(dataset: Any) -> int:
    import tensorflow as tf

    return int(dataset.reduce(tf.constant(0), lambda number, *_: number + 1))


def _seconds(dataset: Any) -> float:
    """Return the seconds it takes to make all elements; to skip them calls no function for each, as counting does.

    What it takes to destroy the iterator is not among them: that may be long, and says nothing of the pipeline.
    """
    began = time.perf_counter()
    iterator = iter(dataset.skip(_ALL))
    next(iterator, None)
    return time.perf_counter() - began
