"""Who reads an optimized dataset, and who is told of it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from autopipe.memories import Memories
    from autopipe.telemetry.stall import StallCounter

__all__ = ["Observer", "Reading", "observe", "observers", "stop_observing"]


class Observer(Protocol):
    """Is told of every iterator over an optimized dataset; pipelines made while one listens are metered."""

    def reading_started(self, reading: Reading) -> None:
        """Take note of a new iterator."""
        ...


# Weak, so that a callback left behind by a fit() that raised is not told for ever.
_observers: weakref.WeakSet[Any] = weakref.WeakSet()


def observe(observer: Observer) -> None:
    """Tell ``observer`` of every iterator made from now on."""
    _observers.add(observer)


def stop_observing(observer: Observer) -> None:
    """Tell ``observer`` no more."""
    _observers.discard(observer)


def observers() -> tuple[Observer, ...]:
    """Return those who are told now."""
    return tuple(_observers)


@dataclass(eq=False)
class Reading:
    """One iterator over an optimized dataset.

    Attributes:
        dataset: which one, an ``OptimizedDataset``.
        iterator: the iterator, or ``None`` once it is gone.
        stall: counts how long its consumer waited; ``None`` if nobody observed when it was made.
        knobs: those it runs with. They lag behind the dataset's where it cannot change before its end.
        memories: where its memory caches keep their elements.
        taken: counts its elements where those are to take note of its end; else ``None``.
        files: where it keeps what its disk caches hold, in the order of the tree.
        writes: whether it began to write one of them; TensorFlow cannot carry that over to another pipeline.
        handed_out: whether somebody asked for it; if not, it was started early.
    """

    dataset: Any
    iterator: weakref.ReferenceType[Any]
    stall: StallCounter | None
    knobs: dict[str, int]
    memories: Memories
    taken: Any = None
    files: tuple[str, ...] = ()
    writes: bool = False
    handed_out: bool = True
