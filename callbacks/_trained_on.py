"""The dataset that a training reads, optimized or derived from one, as distinct from others read meanwhile."""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from autopipe.pipeline.text import stage
from autopipe.runtime.readings import Reading

__all__ = ["TrainedOn", "reads_the_same"]

_Written: TypeAlias = tuple[tuple[str, str | None], ...]


class TrainedOn:
    """The datasets that steps were trained on; one that is not referenced elsewhere is forgotten."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, set[_Written]] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, reading: Reading) -> None:
        """Note that a step was trained on an iterator."""
        self._known.setdefault(reading.dataset, set()).add(_written(reading))

    def may_be(self, reading: Reading) -> bool:
        """Return whether an iterator reads one of them, or none is known: another dataset may be for validation."""
        return not self._known or _written(reading) in self._known.get(reading.dataset, ())


def reads_the_same(one: Reading, other: Reading) -> bool:
    """Return whether two iterators read the same dataset with the same stages after it."""
    return one.dataset is other.dataset and _written(one) == _written(other)


def _written(reading: Reading) -> _Written:
    """Return the stages after a dataset as they were written: a loop may recreate them for each epoch."""
    return tuple((stage(each), each.line) for each in reading.after)
