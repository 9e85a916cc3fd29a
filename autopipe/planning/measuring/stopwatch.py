"""Timing two pipelines against each other, in short windows that take turns."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Stopwatch", "around_median", "compare_speeds", "longer_than"]

_WARM_UP_SECONDS = 0.01
_WINDOW_SECONDS = 0.025
# For a single pipeline: there is no other to share a disturbance with, so the window is longer.
_LONG_WINDOW_SECONDS = 0.1
_FEWEST_PAIRS = 3
# A loss takes this many pairs: three pairs in a row are too often lost by chance.
_PAIRS_FOR_LOSS = 5
_MOST_PAIRS = 15
# A smaller gain changes nothing, whether it is real or not.
_LITTLE_GAIN = 1.05
# A possible gain of this much is worth all pairs, however small the median is.
_GOOD_GAIN = 1.2
# TensorFlow makes up to 16 batches ahead when it fuses a map and a batch.
_MOST_READY = 32
# A batch that takes more than this share of the usual time was not ready.
_WAITED_FOR = 0.5
# Noise does not make two equal pipelines differ by this ratio twice in a row.
_CLEARLY = 1.4
# The start of an iterator counts if it takes more than this share of an element's time. It is timed at most this many
# times, for at most this share of the time given.
_LITTLE_START, _STARTS = 0.05, 3
_STARTING_SHARE = 0.1
_LONG_START_SECONDS = 20.0
# Pipelines whose speeds differ by this ratio even while warming up are compared only once: the slower would take long.
_FAR = 3.0


def compare_speeds(
    before: Any,
    after: Any,
    seconds: float,
    consumer_seconds: float = 0.0,
    *,
    both_ways: bool = False,
    epoch: float = math.inf,
) -> tuple[float, float, float]:
    """Return how many times as fast one endless dataset is as another: the median of pairs, and an interval around it.

    The two take turns in going first, since a machine that slows down, or speeds up, favours one of them. Each goes
    first twice in a row: a disturbance may cover two windows, which must not be of the same dataset. If there is time
    for only two pairs, each goes first once.

    Args:
        before: an endless dataset. It must not run far ahead: elements made while the other is timed seem to cost
            nothing, and disturb the other.
        after: another one.
        seconds: how long to go on while noise still hides a gain, including the time to start.
        consumer_seconds: the time a consumer takes for each element; the ratio is then as the consumer sees it.
        both_ways: whether to go on also while noise hides a loss.
        epoch: the number of elements of an epoch: each epoch has to start an iterator, which takes longer the more
            functions there are.
    """
    end = time.perf_counter() + seconds
    old, new = Stopwatch(before), Stopwatch(after)
    warming_up = (old.warm_up() + consumer_seconds) / (new.warm_up() + consumer_seconds)
    starts = _shares_of_starts({old: before, new: after}, epoch, consumer_seconds, seconds)
    ratios: list[float] = []
    while len(ratios) < 2 or (_is_undecided(ratios, both_ways) and time.perf_counter() < end):
        is_last = len(ratios) == 1 and time.perf_counter() >= end
        turns = (new, old) if len(ratios) // 2 % 2 or is_last else (old, new)
        taken = {watch: watch.seconds_per_batch(_WINDOW_SECONDS) + consumer_seconds + starts[watch] for watch in turns}
        ratios.append(taken[old] / taken[new])
        if len(ratios) == 1 and _are_far_apart(warming_up, ratios[0]):
            return around_median([warming_up, ratios[0]])
    return around_median(ratios)


def _shares_of_starts(
    watches: Mapping[Stopwatch, Any], epoch: float, consumer_seconds: float, seconds: float
) -> dict[Stopwatch, float]:
    """Return the time to start an iterator per element of an epoch; 0 if that is little.

    The first start takes longer than those of later epochs, as when XLA compiles a function: each side starts once
    more, unless that took very long, as when much is skipped. It starts again only if there is time, and if it could
    change the result.
    """
    paces = [watch.usual_seconds + consumer_seconds for watch in watches]
    shares = {watch: watch.start_seconds / epoch for watch in watches}
    if all(share <= _LITTLE_START * pace for share, pace in zip(shares.values(), paces, strict=True)):
        return dict.fromkeys(watches, 0.0)
    if sum(watch.start_seconds for watch in watches) > _LONG_START_SECONDS:
        return shares
    end = time.perf_counter() + _STARTING_SHARE * seconds
    for looked_at in range(1, _STARTS):
        if looked_at > 1 and (_change_little(paces, [*shares.values()]) or time.perf_counter() > end):
            break
        shares = {watch: min(share, Stopwatch(watches[watch]).start_seconds / epoch) for watch, share in shares.items()}
    return shares


def _change_little(paces: Sequence[float], shares: Sequence[float]) -> bool:
    """Return whether the starts hardly change how two pipelines compare."""
    slower = [1 + share / pace for share, pace in zip(shares, paces, strict=True)]
    return max(slower) <= (1 + _LITTLE_START) * min(slower)


def longer_than(dataset: Any, seconds: float) -> bool:
    """Return whether an endless dataset takes longer than this for a batch; after warming up if it is clear by then."""
    watch = Stopwatch(dataset)
    warming_up = watch.warm_up()
    if _are_far_apart(seconds / warming_up):
        return warming_up > seconds
    return watch.seconds_per_batch(_LONG_WINDOW_SECONDS) > seconds


def _are_far_apart(*ratios: float) -> bool:
    """Return whether all ratios agree that one pipeline is several times as fast as the other."""
    return min(ratios) > _FAR or max(ratios) < 1 / _FAR


def around_median(ratios: list[float], spread: float | None = None) -> tuple[float, float, float]:
    """Return the median, and the order statistics between which the true median lies two times in three.

    These are not the extremes: on a busy machine one window in five is easily ten times too long.

    Args:
        ratios: one or more.
        spread: how many places from the middle the two stand, for another confidence.

    >>> ratios = [1.6, 1.0, 9.0, 1.4, 1.5]
    >>> around_median(ratios), around_median(ratios, spread=2)
    ((1.5, 1.4, 1.6), (1.5, 1.0, 9.0))
    """
    middle = (len(ratios) - 1) / 2
    spread = len(ratios) ** 0.5 / 2 if spread is None else spread
    ordered = sorted(ratios)
    low, high = ordered[max(0, round(middle - spread))], ordered[min(len(ratios) - 1, round(middle + spread))]
    return statistics.median(ratios), low, high


def _is_undecided(ratios: list[float], both_ways: bool = False) -> bool:
    """Return whether more pairs are worth their time, as for a gain that noise still hides."""
    count = len(ratios)
    median, low, high = around_median(ratios)
    if low > _CLEARLY or high < 1 / _CLEARLY:
        return False
    if low > _LITTLE_GAIN:
        return count < _FEWEST_PAIRS
    if both_ways:
        return count < _PAIRS_FOR_LOSS or (low <= 1 <= high and count < _MOST_PAIRS)
    if median > _LITTLE_GAIN or high > _GOOD_GAIN:
        return count < _MOST_PAIRS
    return count < (_PAIRS_FOR_LOSS if high > _LITTLE_GAIN else _FEWEST_PAIRS)


class Stopwatch:
    """Draws batches from one endless pipeline and times them.

    Attributes:
        start_seconds: how long it took to get the first batch.
        usual_seconds: the time of a batch in the last window.
    """

    def __init__(self, dataset: Any) -> None:
        began = time.perf_counter()
        self._iterator = iter(dataset)
        next(self._iterator)
        self.start_seconds = time.perf_counter() - began
        self.usual_seconds = 0.0

    def warm_up(self) -> float:
        """Draw a few batches after the first, and return the time of one."""
        self.usual_seconds = self._draw(_WARM_UP_SECONDS)
        return self.usual_seconds

    def seconds_per_batch(self, seconds: float) -> float:
        """Return the time of a batch in a window of at least this many seconds, after batches that were ready before.

        The window ends by the clock: the warm-up does not show how many batches fill it.
        """
        self._empty_buffers()
        self.usual_seconds = self._draw(seconds)
        return self.usual_seconds

    def _draw(self, seconds: float) -> float:
        start, batches, taken = time.perf_counter(), 0, 0.0
        while batches == 0 or taken < seconds:
            next(self._iterator)
            batches += 1
            taken = time.perf_counter() - start
        return taken / batches

    def _empty_buffers(self) -> None:
        """Draw the batches that are ready: they come at once, and the first that is not has to be waited for."""
        for _ in range(_MOST_READY):
            start = time.perf_counter()
            next(self._iterator)
            if time.perf_counter() - start > _WAITED_FOR * self.usual_seconds:
                return
