"""Which thread takes the elements of an iterator: no other thread may change its pipeline meanwhile.

Two methods of TensorFlow's iterators are extended here, a private one, ``_next_internal``, and
``get_next_as_optional``. A traced function calls neither: then the thread that made the iterator counts as the one
that takes its elements.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["Taker"]


class Taker:
    """The thread that takes the elements of an iterator: the one that took the last, or else the one that made it.

    >>> import tensorflow as tf
    >>> iterator = iter(tf.data.Dataset.range(3))
    >>> taker = Taker()
    >>> taker.take_note(iterator)
    >>> thread = threading.Thread(target=lambda: next(iterator))
    >>> thread.start()
    >>> thread.join()
    >>> with taker.kept_waiting() as is_here:
    ...     is_here
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._taking: set[int] = set()

    @property
    def thread(self) -> int:
        """The thread, by its identifier."""
        return self._thread

    def take_note(self, iterator: Any) -> None:
        """From now on, notice which thread takes elements of an iterator."""
        kind: Any = type(iterator)
        iterator._autopipe_taker = self
        iterator.__class__ = _noticing(kind)

    def is_here(self) -> None:
        """Note that it is the calling thread."""
        with self._lock:
            self._thread = threading.get_ident()

    def take(self, element: Callable[[], Any]) -> Any:
        """Return what calling ``element`` takes, and note that this thread does so."""
        here = threading.get_ident()
        with self._lock:
            self._thread = here
            self._taking.add(here)
        try:
            return element()
        finally:
            self._taking.discard(here)

    @contextmanager
    def kept_waiting(self) -> Iterator[bool]:
        """Let no other thread begin to take an element, and yield whether only this thread takes them."""
        with self._lock:
            here = threading.get_ident()
            yield self._thread == here and not self._taking - {here}


@lru_cache
def _noticing(kind: Any) -> Any:
    """Return a subclass of an iterator class that tells a taker which thread takes an element."""

    class Noticing(kind):  # type: ignore[misc]
        def _next_internal(self) -> Any:
            return self._autopipe_taker.take(super()._next_internal)

        def get_next_as_optional(self) -> Any:
            return self._autopipe_taker.take(super().get_next_as_optional)

    Noticing.__name__, Noticing.__qualname__, Noticing.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Noticing
