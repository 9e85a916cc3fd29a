"""The memory that optimized datasets of this process were promised for their caches."""

from __future__ import annotations

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["promise", "promised_bytes", "promised_to"]

_PROMISES: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
# Another thread may promise while the promises are read.
_lock = Lock()


def promise(dataset: Any, caches: int) -> None:
    """Note that a dataset may fill caches of this many bytes, for as long as it lives."""
    with _lock:
        _PROMISES[dataset] = caches


def promised_bytes() -> int:
    """Return the bytes promised to all living datasets, except those that hold them already.

    Memory that is in use is no longer promised.
    """
    with _lock:
        datasets = list(_PROMISES)
    return sum(map(promised_to, datasets))


def promised_to(dataset: Any) -> int:
    """Return the bytes promised to a dataset; 0 if it holds them already.

    >>> import autopipe, tensorflow as tf
    >>> promised_to(autopipe.optimize(tf.data.Dataset.range(3), seconds=0))
    0
    """
    with _lock:
        caches = _PROMISES.get(dataset, 0)
    return caches if caches and not dataset.caches_are_filled else 0
