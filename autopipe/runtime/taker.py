"""Which thread takes the elements of an iterator: another one must not change what it runs meanwhile.

A private method of TensorFlow is replaced here, ``OwnedIterator._next_internal``. What was traced does not call it: the
thread that asked for the iterator is taken to be the one that takes its elements then.
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

    Attributes:
        number: how many elements were taken from Python.

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
        self.number = 0
        self._lock = threading.Lock()
        self._thread = threading.get_ident()

    @property
    def thread(self) -> int:
        """The thread, by its identifier."""
        return self._thread

    def take_note(self, iterator: Any, failed: Callable[[], None] = lambda: None) -> None:
        """From now on, notice which thread takes elements of an iterator.

        Args:
            iterator: the iterator.
            failed: is called where it takes one that failed.
        """
        import tensorflow as tf

        itself, take = weakref.ref(iterator), type(iterator)._next_internal

        def taken() -> Any:
            if self._thread != threading.get_ident():
                self.is_here()
            try:
                element = take(itself())
                self.number += 1
                return element
            except tf.errors.OutOfRangeError:
                # Its end.
                raise
            except tf.errors.OpError:
                failed()
                raise

        iterator._next_internal = taken

    def is_here(self) -> None:
        """Take note that it is the thread that calls this."""
        with self._lock:
            self._thread = threading.get_ident()

    @contextmanager
    def kept_waiting(self) -> Iterator[bool]:
        """Let no other thread begin to take an element, and tell whether it is this thread that takes them."""
        with self._lock:
            yield self._thread == threading.get_ident()
