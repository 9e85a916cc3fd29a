"""What memory caches hold, apart from the datasets that read it: it stays when a pipeline is made anew."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.build import build, memory_caches

__all__ = ["Memories"]


class Memories:
    """Where the memory caches of a pipeline keep their elements.

    Iterators may share them once they are full; before, each fills its own. For TensorFlow saves an iterator that
    fills a cache wrongly if another has filled it meanwhile: restored, it would be at its end.

    Attributes:
        caches: their nodes, in the order they are built.

    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(3).cache())
    >>> memories = Memories(tree)
    >>> memories.full, [int(x) for x in memories.build(tree)], memories.full
    (False, [0, 1, 2], True)
    """

    def __init__(self, tree: ir.Node) -> None:
        self.caches = memory_caches(tree)
        # Each is a handle, and what frees the memory when it goes.
        self._resources = [tf.raw_ops.AnonymousMemoryCache() for _ in self.caches]
        self._full = False

    def build(self, tree: ir.Node) -> Any:
        """Make the dataset of a pipeline with the same caches, whatever its knobs."""
        return build(tree, (handle for handle, _ in self._resources))

    @property
    def full(self) -> bool:
        """Whether there is nothing left to fill."""
        self._full = self._full or all(map(_is_full, self.caches, self._resources))
        return self._full


def _is_full(cache: ir.Node, resource: Any) -> bool:
    """Ask a cache for an element: of one that is not full, it would be the first of an input that fails."""
    failing = build(cache.inputs[0]).take(0).apply(tf.data.experimental.assert_cardinality(1))
    probe = build(cache.on(ir.Source(dataset=failing)), iter([resource[0]]))
    try:
        next(iter(probe), None)
    except tf.errors.FailedPreconditionError:
        return False
    return True
