"""A small ``take`` of an optimized dataset, as for a look at its first elements beside training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract

__all__ = ["LookingDataset"]


class LookingDataset(tf.data.Dataset):
    """A small ``take`` of an optimized dataset whose first element waits for all that a cache will hold.

    Until those caches are full, each pass runs the pipeline as it is written, and fills no cache. After ``passes``
    passes it has taken as many elements as there are, and is likely to be read for many epochs: from then on it fills
    caches as any other dataset does.

    Args:
        derive: makes the dataset, which reads the caches that are full by now.
        look: returns the iterator of a pass; ``None`` if no cache would make it wait.
        passes: how many passes may fill no cache; ``math.inf`` for all.

    >>> taken = LookingDataset(lambda: tf.data.Dataset.range(2), look=lambda: iter([0, 1]), passes=1)
    >>> [int(x) for x in taken], [int(x) for x in taken]
    ([0, 1], [0, 1])
    """

    def __init__(self, derive: Callable[[], Any], look: Callable[[], Any], passes: float) -> None:
        self._derive = derive
        self._look = look
        self._looks = passes
        self._derived = derive()
        self._passes = 0
        super().__init__(tf.data.experimental.to_variant(self._derived))

    def _inputs(self) -> list[Any]:
        return [self._derived]

    @property
    def _autopipe_tree(self) -> ir.Node:
        return extract(self._derived)

    @property
    def element_spec(self) -> Any:
        """The structure of one element."""
        return self._derived.element_spec

    def __iter__(self) -> Any:
        if not tf.executing_eagerly():
            return super().__iter__()
        self._passes += 1
        looked = self._look() if self._passes <= self._looks else None
        return iter(self._derive()) if looked is None else looked
