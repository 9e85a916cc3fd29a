"""What memory caches hold, apart from the datasets that read it: it stays when a pipeline is made anew."""

from __future__ import annotations

from copy import copy
from typing import Any

import tensorflow as tf

from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.disposal import resource_of
from autopipe.pipeline.failing import who_may_fail
from autopipe.repoint import state_of
from autopipe.rules import decides_caches

__all__ = ["Memories", "may_leave_out"]


class Memories:
    """Where the memory caches of a pipeline keep their elements.

    Iterators may share them once they are full; before, each fills its own. For TensorFlow saves an iterator that
    fills a cache wrongly if another has filled it meanwhile: restored, it would be at its end.

    A cache is full for TensorFlow even where an element failed and a prefetch went on: that element is not in it, and
    would be missing from then on. Where autopipe put a cache, such a one is not full: what fills it must have been read
    to its end, which nobody does after an error.

    Args:
        tree: the pipeline.
        guarded: whether that is to be looked after; see :func:`may_leave_out`.

    Attributes:
        caches: their nodes, in the order they are built.

    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(3).cache())
    >>> memories = Memories(tree)
    >>> memories.full, [int(x) for x in memories.build(tree)], memories.full
    (False, [0, 1, 2], True)
    """

    def __init__(self, tree: ir.Node, *, guarded: bool = False) -> None:
        self.caches = memory_caches(tree)
        self._resources = _resources_for(self.caches)
        self._full = False
        with tf.device("CPU:0"):
            self._ended = tf.Variable(False, trainable=False) if guarded else None

    def successor(self) -> Memories:
        """Return memories of their own that hold what these do, once the state of an iterator is restored into them.

        What a full cache holds is there at once. Nothing is copied but references.
        """
        made = copy(self)
        made._resources = _resources_for(self.caches)
        for cache, mine, its in zip(self.caches, self._resources, made._resources, strict=True):
            if _is_full(cache, mine):
                _hand_over(cache, mine, its)
        return made

    def build(self, tree: ir.Node) -> Any:
        """Make the dataset of a pipeline with the same caches, whatever its knobs."""
        return build(tree, (handle for handle, _ in self._resources))

    def note_end(self) -> None:
        """Take note, in a graph, that a consumer of the whole pipeline came to its end, while the caches fill."""
        if self._ended is not None:
            self._ended.assign(True)

    @property
    def watches(self) -> bool:
        """Whether :meth:`note_end` is to be called."""
        return self._ended is not None and not self.full

    @property
    def full(self) -> bool:
        """Whether there is nothing left to fill."""
        self._full = self._full or (self._was_read_to_its_end() and all(map(_is_full, self.caches, self._resources)))
        return self._full

    @property
    def spoiled(self) -> bool:
        """Whether a cache is full for TensorFlow, and perhaps not of all elements."""
        return not self._was_read_to_its_end() and any(map(_is_full, self.caches, self._resources))

    def hold_more_than(self, count: int) -> bool:
        """Return whether a full cache holds more elements than that."""
        held = zip(self.caches, self._resources, strict=True)
        return any(next(iter(_without_input(*each).skip(count)), None) is not None for each in held if _is_full(*each))

    def _was_read_to_its_end(self) -> bool:
        return self._ended is None or bool(self._ended.numpy())


def _resources_for(caches: list[ir.Node]) -> list[Any]:
    # Each is a handle, and what frees the memory when it goes.
    return [tf.raw_ops.AnonymousMemoryCache() for _ in caches]


def may_leave_out(rewriting: Rewriting) -> bool:
    """Return whether a memory cache gets elements that may fail, which its author did not put into it."""
    if not any(decides_caches(step.rule) for step in rewriting.steps):
        return False
    return any(who_may_fail(each.inputs[0]) is not None for each in memory_caches(rewriting.after))


def _is_full(cache: ir.Node, resource: Any) -> bool:
    """Ask a cache for an element: of one that is not full, it would be the first of an input that fails."""
    try:
        next(iter(_without_input(cache, resource)), None)
    except tf.errors.FailedPreconditionError:
        return False
    return True


def _hand_over(cache: ir.Node, giver: Any, taker: Any) -> None:
    """Put what a full cache holds into another: the state of an iterator over it has all its elements."""
    full, empty = (iter(_without_input(cache, each)) for each in (giver, taker))
    tf.raw_ops.DeserializeIterator(resource_handle=resource_of(empty), serialized=state_of(full))


def _without_input(cache: ir.Node, resource: Any) -> Any:
    """Return a dataset of what a cache holds; where that is not everything, its first element fails."""
    failing = build(cache.inputs[0]).take(0).apply(tf.data.experimental.assert_cardinality(1))
    return build(cache.on(ir.Source(dataset=failing)), iter([resource[0]]))
