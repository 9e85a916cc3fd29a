"""The time it takes to make an element, and to read it from a cache."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tensorflow as tf

from autopipe.figures import bytes_text
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.planning.disk.disk_cache import SAMPLES
from autopipe.planning.measuring.nothing_passes import ending_in_time
from autopipe.planning.measuring.samples import SAMPLE_BYTES, SAMPLE_SECONDS, without_buffers
from autopipe.rules import MeasurementError

__all__ = ["CachingCost", "caching_cost"]

_SECONDS = 0.025
_FEWEST_TURNS = 3
# The time Python takes to handle one element on an otherwise idle machine. If making an element takes less than five
# times as long, Python gets only one of many.
_PYTHON_SECONDS, _OF_COMPONENT, _OF_COMPOSITE = 50e-6, 5e-6, 40e-6
_LITTLE = 1 / 5
# No machine is more than this many times as slow as expected.
_MOST_TIMES_AS_SLOW = 10
_TRIES = 9
# A pipeline that gives no more elements is abandoned after this many seconds.
_MOST_SECONDS = 4 * SAMPLE_SECONDS
_MANY, _FEW = 64, 8
# The longest that a turn of many elements may take, if each takes as long as one by one.
_MANY_SECONDS = 0.02
_END = object()
# More than a sample ever has; TensorFlow keeps only the low bits of larger numbers.
_ALL = 10**9


@dataclass(frozen=True)
class CachingCost:
    """The cost of an element with and without a cache.

    Attributes:
        making: the seconds it takes to make one.
        reading: the seconds it takes to read one from the cache.
        made: the last elements that came one by one, at most as many as a sample has.
    """

    making: float
    reading: float
    made: Sequence[Any] = ()


def caching_cost(node: ir.Node, element_bytes: float, folder: Path | None, ram_budget: int) -> CachingCost:
    """Return the time it takes to make an element, and to read it from a cache in memory, or in a folder if given.

    Raises:
        MeasurementError: if one element is larger than both a sample and the memory that may be added.
    """
    in_sample = int(SAMPLE_BYTES / max(element_bytes, 1))
    most = max(_FEW, in_sample)
    if folder is None:
        most = min(most, int(max(SAMPLE_BYTES, ram_budget) / max(element_bytes, 1)))
    if not most:
        budget = f"the RAM budget of {bytes_text(ram_budget)}"
        raise MeasurementError(f"one element takes {bytes_text(element_bytes)}, above {budget}")
    (timed,) = ending_in_time([without_buffers(node)], _MOST_SECONDS)
    dataset = build(timed)
    making, each, made = _making(dataset, min(_MANY, most), in_sample)
    if folder is None:
        reading = _turns(dataset.take(each).cache().repeat(), each)
        if not reading:
            raise MeasurementError("the pipeline has no elements the second time")
        # The median, since the pipeline still makes elements ahead during the first reads.
        return CachingCost(making, statistics.median(reading) / each, made)
    count = max(_FEW, min(int(SAMPLE_SECONDS / making), most))
    with TemporaryDirectory(dir=folder, prefix=SAMPLES) as place:
        return _from_disk(dataset.take(count).cache(f"{place}/data"), Path(place))


def _making(dataset: Any, many: int, held: int) -> tuple[float, int, Sequence[Any]]:
    """Return the seconds to make an element, how many are read for each that Python gets, and the last elements.

    If there are too few elements to give Python one of many, its time counts on both sides. The last elements came one
    by one, and are at most ``held``.
    """
    made: deque[Any] = deque(maxlen=held)
    turns = _undisturbed(dataset, made=made)
    if not turns:
        alone = _seconds(dataset)
        if not _count(dataset.take(1)):
            raise MeasurementError("the pipeline has no elements")
        return alone, 1, ()
    one_by_one = statistics.fmean(turns)
    if _is_mostly_making(one_by_one, dataset.element_spec, made):
        return one_by_one, max(1, min(_FEW, many, int(SAMPLE_SECONDS / one_by_one))), made
    many = min(many, max(_FEW, int(_MANY_SECONDS / one_by_one)))
    of_many = _undisturbed(dataset, many)
    if len(of_many) < _FEWEST_TURNS:
        # There are too few elements for that.
        many = max(1, _count(dataset.take(many * (_FEWEST_TURNS + 1))) // (_FEWEST_TURNS + 1))
        of_many = _undisturbed(dataset, many)
    return (statistics.fmean(of_many) / many, many, made) if of_many else (one_by_one, 1, made)


def _is_mostly_making(one_by_one: float, spec: Any, made: Sequence[Any]) -> bool:
    """Return whether most of the time between two elements goes into making them, not into giving them to Python.

    If that is unclear, the latter is timed: on a busy machine it takes several times as long as usual.
    """
    expected = _python_seconds(spec)
    if expected > _LITTLE * one_by_one:
        return False
    if not made or expected * _MOST_TIMES_AS_SLOW <= _LITTLE * one_by_one:
        return True
    return _giving_seconds(made[-1]) <= _LITTLE * one_by_one


def _giving_seconds(element: Any) -> float:
    """Return how long Python takes for an element that is already made."""
    return statistics.median(_turns(tf.data.Dataset.from_tensors(element).repeat(_TRIES)))


def _python_seconds(spec: Any) -> float:
    """Return about how long Python takes to handle an element."""
    components = tf.nest.flatten(spec)
    composites = sum(1 for each in components if not isinstance(each, tf.TensorSpec))
    return _PYTHON_SECONDS + _OF_COMPONENT * len(components) + _OF_COMPOSITE * composites


def _undisturbed(dataset: Any, each: int = 1, made: deque[Any] | None = None) -> list[float]:
    """Return turns as :func:`_turns` does; if one took most of the time, time again, and return the faster turns.

    One turn takes most of the time if elements are made many at a time, or if the machine was busy for a moment: only
    the first happens again.
    """
    turns = _turns(dataset, each, made)
    if len(turns) < _FEWEST_TURNS or max(turns) < sum(turns) / 2:
        return turns
    again = _turns(dataset, each)
    return min(turns, again or turns, key=statistics.fmean)


def _turns(dataset: Any, each: int = 1, made: deque[Any] | None = None) -> list[float]:
    """Return the seconds between elements, of which only one in ``each`` is taken, for a short while.

    The time until the first element is left out; the list is empty if there is no second.

    Args:
        dataset: what to read.
        each: one element in this many is taken.
        made: where to put the elements taken.
    """
    elements = iter(dataset if each == 1 else dataset.shard(each, each - 1))
    turns: list[float] = []
    element = next(elements, _END)
    if element is _END:
        return turns
    began = last = time.perf_counter()
    while last - began < (_SECONDS if len(turns) >= _FEWEST_TURNS else SAMPLE_SECONDS):
        if made is not None:
            made.append(element)
        element = next(elements, _END)
        if element is _END:
            break
        now = time.perf_counter()
        turns.append(now - last)
        last = now
    return turns


def _from_disk(cached: Any, place: Path) -> CachingCost:
    making, count = _seconds(cached), _count(cached)
    for file in place.iterdir():
        _forget(file)
    return CachingCost(making / count, _seconds(cached) / count)


def _forget(file: Path) -> None:
    """Make the kernel read a file from the disk the next time, as it must if a file is larger than memory."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _count(dataset: Any) -> int:
    return int(dataset.reduce(tf.constant(0), lambda number, *_: number + 1))


def _seconds(dataset: Any) -> float:
    """Return the seconds it takes to make all elements; they are skipped, since counting calls a function for each.

    The time to destroy the iterator is left out: it may be long, and says nothing about the pipeline.
    """
    began = time.perf_counter()
    iterator = iter(dataset.skip(_ALL))
    next(iterator, None)
    return time.perf_counter() - began
