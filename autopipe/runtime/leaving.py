"""Whether caches are filled for nothing, by iterators that are left in the midst of an epoch one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from autopipe.runtime.requests import Requests

__all__ = ["Departures", "read_to_end"]

# A fit of one epoch makes two iterators, and some look at the first batch before that.
_IN_A_ROW = 4
# One element more is there already, mostly.
_PATIENCE_SECONDS = 0.1


class Departures:
    """Counts iterators that were left midway, in a row.

    >>> import tensorflow as tf
    >>> departures = Departures()
    >>> for _ in range(4):
    ...     departures.watch(iter(tf.data.Dataset.range(3)))
    >>> departures.are_usual
    True
    """

    def __init__(self) -> None:
        self._in_a_row = 0
        self._watched: list[tuple[weakref.ref[Any], Callable[[], bool]]] = []

    def watch(self, iterator: Any, ended: Callable[[], bool] = lambda: False) -> None:
        """Count an iterator once it is gone.

        Args:
            iterator: the iterator.
            ended: whether it was read to its end. Of one that fills caches nobody asks, if they were full then.
        """
        self._watched.append((weakref.ref(iterator), ended))

    def forget(self, iterator: Any) -> None:
        """Count an iterator no more."""
        self._watched = [each for each in self._watched if each[0]() is not iterator]

    @property
    def are_usual(self) -> bool:
        """Whether so many were left in a row that the next one will be, too."""
        gone = [each for each in self._watched if each[0]() is None]
        self._watched = [each for each in self._watched if each not in gone]
        for _, ended in gone:
            self._in_a_row = 0 if ended() else self._in_a_row + 1
        return self._in_a_row >= _IN_A_ROW


def read_to_end(requests: Requests, number: int, asked: Future[None] | None = None) -> bool:
    """Return whether a consumer asked in vain for more, or got as many as there are, where that is known.

    Args:
        requests: what it asked for.
        number: how many there are; below 0 where that is not known.
        asked: is done once one element more was asked for, which tells the end where the number does not.

    >>> read_to_end(Requests(given=3), number=3), read_to_end(Requests(given=2), number=-2)
    (True, False)
    """
    if number < 0 and asked is not None:
        wait([asked], timeout=_PATIENCE_SECONDS)
    return requests.in_vain > 0 or 0 <= number <= requests.given
