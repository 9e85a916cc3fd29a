"""Which thread takes the elements of an iterator: another one must not change what it runs meanwhile.

Two methods of TensorFlow's iterators are replaced here, a private one, ``_next_internal``, and
``get_next_as_optional``. What was traced calls neither: the thread that asked for the iterator is taken to be the one
that takes its elements then.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Taker"]


class Taker:
    """The thread that takes the elements of one iterator: the one that took the last, or else the one that made this.

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
        itself, kind = weakref.ref(iterator), type(iterator)
        iterator._next_internal = self._noticing(itself, kind._next_internal)
        iterator.get_next_as_optional = self._noticing(itself, kind.get_next_as_optional)

    def is_here(self) -> None:
        """Take note that it is the thread that calls this."""
        with self._lock:
            self._thread = threading.get_ident()

    def _noticing(self, itself: Callable[[], Any], take: Callable[[Any], Any]) -> Callable[[], Any]:
        def taken() -> Any:
            here = threading.get_ident()
            with self._lock:
                self._thread = here
                self._taking.add(here)
            try:
                return take(itself())
            finally:
                self._taking.discard(here)

        return taken

    @contextmanager
    def kept_waiting(self) -> Iterator[bool]:
        """Let no other thread begin to take an element, and tell whether it is this thread, alone, that takes them."""
        with self._lock:
            here = threading.get_ident()
            yield self._thread == here and not self._taking - {here}
