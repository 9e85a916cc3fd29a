"""Whether caches are filled in vain, because one iterator after the other is abandoned in mid-epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from autopipe.runtime.requests import Requests

__all__ = ["Departures", "answer", "read_to_end"]

# A fit of one epoch makes two iterators, and some users look at the first batch before that.
_IN_A_ROW = 4
_PATIENCE_SECONDS = 0.02


class _Watched(NamedTuple):
    iterator: weakref.ref[Any]
    ended: Callable[[], bool | None]
    asked: Future[bool] | None


class Departures:
    """Counts how many iterators in a row were abandoned midway.

    >>> import tensorflow as tf
    >>> departures = Departures()
    >>> for _ in range(4):
    ...     departures.watch(iter(tf.data.Dataset.range(3)))
    >>> departures.are_usual
    True
    """

    def __init__(self) -> None:
        self._in_a_row = 0
        self._not_all = 0
        self._watched: list[_Watched] = []

    def watch(
        self, iterator: Any, ended: Callable[[], bool | None] = lambda: False, asked: Future[bool] | None = None
    ) -> None:
        """Count an iterator once it is gone.

        Args:
            iterator: the iterator.
            ended: whether it was read to its end; ``None`` as long as that is not known. It is not needed for an
                iterator that fills caches: once they are full, no iterators are counted.
            asked: is done once that is known, if it is being found out.
        """
        self._watched.append(_Watched(weakref.ref(iterator), ended, asked))

    def forget(self, iterator: Any) -> None:
        """Stop watching an iterator."""
        self._watched = [each for each in self._watched if each.iterator() is not iterator]

    def may_be_all(self, given: int | None) -> bool:
        """Return whether this many elements may be all there are, where the number is unknown; 0 never is."""
        return given is None or given > self._not_all

    def note(self, given: int | None, ended: bool) -> None:
        """Note whether an iterator that gave this many elements had reached its end."""
        if given is not None and not ended:
            self._not_all = max(self._not_all, given)

    @property
    def are_usual(self) -> bool:
        """Whether enough iterators in a row were abandoned to expect it of the next one, too."""
        self._count()
        asked = [each.asked for each in self._watched if each.asked is not None and each.iterator() is None]
        if asked and self._in_a_row >= _IN_A_ROW:
            # One may have come to its end a moment ago.
            wait(asked, timeout=_PATIENCE_SECONDS)
            self._count()
        return self._in_a_row >= _IN_A_ROW

    def _count(self) -> None:
        waiting = []
        for each in self._watched:
            outcome = each.ended() if each.iterator() is None else None
            if outcome is None:
                waiting.append(each)
            else:
                self._in_a_row = 0 if outcome else self._in_a_row + 1
        self._watched = waiting


def read_to_end(requests: Requests, number: int) -> bool:
    """Return whether a consumer asked for more in vain, or got all elements, if their number is known.

    >>> read_to_end(Requests(given=3), number=3), read_to_end(Requests(given=2), number=-2)
    (True, False)
    """
    return requests.in_vain > 0 or 0 <= number <= requests.given


def answer(found: Future[bool]) -> bool | None:
    """Return the result; ``None`` as long as there is none.

    >>> answer(Future()) is None
    True
    """
    return found.result() if found.done() else None
