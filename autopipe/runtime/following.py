"""What a user, or Keras for ``class_weight``, puts after an optimized dataset."""

from __future__ import annotations

from functools import reduce
from typing import Any, Protocol

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.builders import build_stage
from autopipe.pipeline.extract import extract
from autopipe.runtime.reading import Stages, tree_after

__all__ = ["FollowingDataset", "built_after", "followed_by"]


class Followed(Protocol):
    """An optimized dataset, as those after it need it."""

    @property
    def original(self) -> Any:
        """The dataset as it was written."""
        ...

    @property
    def tree(self) -> ir.Node:
        """The pipeline as it runs now."""
        ...

    def iterator(self, after: Stages = ()) -> Any:
        """Return an iterator over it with stages after it."""
        ...


def built_after(dataset: Any, stages: Stages) -> Any:
    """Return a dataset with stages after it; their functions are not traced again."""
    return reduce(lambda made, stage: build_stage(stage, made), stages, dataset)


def followed_by(optimized: Followed, stages: Stages, derived: Any) -> Any:
    """Return a dataset that TensorFlow derived from another, as one that stays live where autopipe can read it.

    Args:
        optimized: the dataset at the start.
        stages: those of the other dataset after it.
        derived: a map of the other dataset, or a prefetch.
    """
    if not tf.executing_eagerly():
        return derived
    stage = extract(derived)
    if not isinstance(stage, ir.Map | ir.Prefetch):
        return derived
    return FollowingDataset(optimized, (*stages, stage), derived)


class FollowingDataset(tf.data.Dataset):
    """An optimized dataset with maps and prefetches after it.

    Its iterators are those of the optimized dataset: callbacks see them, and ``retune()`` changes them. Its
    ``original`` is that of the optimized dataset with the same stages after it.

    >>> import autopipe
    >>> optimized = autopipe.optimize(tf.data.Dataset.range(4).map(lambda x: x * 10), seconds=0)
    >>> iterator = iter(optimized.map(lambda x: x + 1))
    >>> first = next(iterator)
    >>> optimized.retune({"prefetch.buffer_size": 3})
    >>> [int(x) for x in iterator]
    [11, 21, 31]
    >>> [int(x) for x in optimized.map(lambda x: x + 1).original]
    [1, 11, 21, 31]
    """

    def __init__(self, optimized: Followed, stages: Stages, derived: Any) -> None:
        self._optimized = optimized
        self._stages = stages
        self._derived = derived
        super().__init__(tf.data.experimental.to_variant(derived))

    def _inputs(self) -> list[Any]:
        return [self._derived]

    @property
    def element_spec(self) -> Any:
        """The structure of one element."""
        return self._derived.element_spec

    @property
    def original(self) -> Any:
        """The dataset as it would be without autopipe."""
        written = self._optimized.original
        original = built_after(written, self._stages)
        original._autopipe_tree = tree_after(extract(written), self._stages)
        return original

    @property
    def _autopipe_tree(self) -> ir.Node:
        return tree_after(self._optimized.tree, self._stages)

    def __iter__(self) -> Any:
        return self._optimized.iterator(self._stages) if tf.executing_eagerly() else super().__iter__()

    def map(self, *given: Any, **named: Any) -> Any:
        """Map it, as any dataset."""
        return followed_by(self._optimized, self._stages, super().map(*given, **named))

    def prefetch(self, *given: Any, **named: Any) -> Any:
        """Prefetch from it, as from any dataset."""
        return followed_by(self._optimized, self._stages, super().prefetch(*given, **named))
