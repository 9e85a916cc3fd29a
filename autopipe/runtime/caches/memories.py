"""What memory caches hold, apart from the datasets that read it: it outlives the pipeline that filled it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from copy import copy
from functools import cached_property
from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.tensorflow_rewrites import as_built
from autopipe.pipeline.whole_caches import Whole, whole
from autopipe.runtime.disposal import resource_of
from autopipe.runtime.repoint import state_of

__all__ = ["Memories"]

# One more element is mostly ready. If it takes longer than this, caches are filled anew; if they seem to be full, it
# may take this share of the time that filling them took.
_PATIENCE_SECONDS = 0.1
_PATIENCE = 0.2
_COUNTED_AT_ONCE = 4096


class Memories:
    """Where the memory caches of a pipeline keep their elements.

    Iterators may share them once they are full; before, each fills its own. Otherwise TensorFlow would save an
    iterator wrongly if another filled its cache meanwhile: restored, it would be at its end.

    TensorFlow takes a cache for full even where an element failed and a prefetch went on: that element would be
    missing from then on. A cache that autopipe added counts as full only if it holds as many elements as there are.
    Where that number is not known, the iterator that filled it must have been read to its end (or, if it has none, for
    more than one pass) without an error.

    Args:
        tree: the pipeline.
        guarded: whether to check that; see :func:`autopipe.runtime.caches.lost_elements.may_leave_out`.

    Attributes:
        caches: their nodes, in the order they are built.
        guarded: as given.

    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(3).cache())
    >>> memories = Memories(tree)
    >>> memories.full, [int(x) for x in memories.build(tree)], memories.full
    (False, [0, 1, 2], True)
    """

    def __init__(self, tree: ir.Node, *, guarded: bool = False) -> None:
        self.caches = memory_caches(tree)
        self.guarded = guarded
        self._tree = tree
        # With ignore_errors() after a cache, an element that failed is missing from it for good.
        counted = guarded and not any(isinstance(node, ir.IgnoreErrors) for node in trees.walk(tree))
        wholes = [whole(cache, tree) if counted else None for cache in self.caches]
        self._memories = [_Memory(*each) for each in zip(self.caches, wholes, strict=True)]
        self._full = False
        self._began = math.inf
        self._asked: list[Future[None]] = []
        self._gone: list[Future[None]] = []
        with tf.device("CPU:0"):
            self._ended = tf.Variable(False, trainable=False) if guarded and None in wholes else None

    def successor(self) -> Memories:
        """Return separate memories that hold what these do, once the state of an iterator is restored into them.

        The elements of a full cache are there at once. Only references are copied.
        """
        made = copy(self)
        made._memories = [each.successor() for each in self._memories]
        return made

    @property
    def can_count(self) -> bool:
        """Whether the number of their elements shows that none is missing, without a note of the end."""
        return not Memories(self._tree, guarded=True).must_end

    def guarded_successor(self) -> Memories:
        """Return a :meth:`successor` in which no element may be missing; memories that are full stay as they are."""
        made = Memories(self._tree, guarded=True)
        pairs = zip(self._memories, made._memories, strict=True)
        made._memories = [before.successor() if before.full else new for before, new in pairs]
        made.note_readers_of(self)
        return made

    def build(self, tree: ir.Node) -> Any:
        """Make the dataset of a pipeline with the same caches, whatever its knobs."""
        return build(tree, (each.handle for each in self._memories))

    def note_end(self) -> None:
        """Note, in a graph, that a consumer of the whole pipeline came to its end, while the caches fill."""
        if self._ended is not None:
            self._ended.assign(True)

    def note_whole(self) -> None:
        """Note that an iterator that noted no end was restored into them: any cache it read was whole."""
        if self._ended is not None and self.are_filled:
            self._ended.assign(True)

    def note_reader(self, gone: Future[None], asked: Future[None] | None = None) -> None:
        """Note an iterator that fills them.

        Args:
            gone: is done once the iterator is destroyed.
            asked: is done once it was asked for one more element than its consumer took; ``None`` if it never will be.
        """
        self._began = min(self._began, time.monotonic())
        self._gone = [gone, *(each for each in self._gone if not each.done())]
        asking = [] if asked is None else [asked]
        self._asked = [*asking, *(each for each in self._asked if not each.done())]

    def note_unseen_reader(self) -> None:
        """Note an iterator that fills them and whose end will not be seen."""
        self._gone = [Future()]

    def note_readers_of(self, other: Memories) -> None:
        """Note that the iterators that filled others fill these."""
        self._began, self._asked, self._gone = other._began, other._asked, other._gone

    def await_readers(self) -> None:
        """Wait a moment for the iterators whose consumers are gone: they may show that the caches are whole."""
        if self.must_end and not self._full:
            self.await_answers(lambda: self.are_filled)

    def await_answers(self, filled: Callable[[], bool]) -> None:
        """Wait a moment for iterators that were asked for one more element; longer if what they filled may be whole."""
        wait(self._asked, timeout=_PATIENCE_SECONDS)
        if self._asked and filled():
            wait(self._asked, timeout=_PATIENCE * (time.monotonic() - self._began))

    @property
    def must_end(self) -> bool:
        """Whether :meth:`note_end` is needed for them to be full."""
        return self._ended is not None

    @property
    def full(self) -> bool:
        """Whether there is nothing left to fill."""
        self._full = self._full or (self._was_read_to_its_end() and self.are_filled)
        return self._full

    @property
    def are_filled(self) -> bool:
        """Whether they take no more elements; one that failed may be missing."""
        return all(each.full for each in self._memories)

    @property
    def some_are_filled(self) -> bool:
        """Whether one of them takes no more elements."""
        return any(each.full for each in self._memories)

    @property
    def counts(self) -> list[int]:
        """How many elements each holds; they must be filled."""
        return [each.count for each in self._memories]

    @property
    def may_be_filled_again(self) -> bool:
        """Whether the iterators that began to fill them are gone, and left nothing in them."""
        return all(each.done() for each in self._gone) and not any(each.full or each.lacks for each in self._memories)

    @property
    def lack_elements(self) -> bool:
        """Whether an element that failed is missing from one of them for good."""
        return self.guarded and not self.full and any(each.lacks for each in self._memories)

    def hold_more_than(self, count: int) -> bool:
        """Return whether a full cache holds more elements than that."""
        return any(each.full and each.holds_more_than(count) for each in self._memories)

    def _was_read_to_its_end(self) -> bool:
        return self._ended is None or bool(self._ended.numpy())


class _Memory:
    """Where one cache keeps its elements. What is known of a full one stays true.

    Args:
        cache: the cache.
        whole: what it holds if no element failed; ``None`` if that is not known, or need not be checked.

    Attributes:
        lacks: whether it was seen to hold fewer.
    """

    def __init__(self, cache: ir.Cache, whole: Whole | None) -> None:
        self._cache = cache
        self._whole = whole
        # The second one frees the memory when it is deleted.
        self.handle, self._deleter = tf.raw_ops.AnonymousMemoryCache()
        self._full = self.lacks = False
        self._longer_than: dict[int, bool] = {}

    @property
    def full(self) -> bool:
        """Whether it holds all elements: a cache that does not asks its input, and here that fails."""
        if not self._full and not self.lacks:
            with contextlib.suppress(tf.errors.FailedPreconditionError):
                next(iter(self._alone), None)
                self._full = self._whole is None or self._whole.is_in(self._alone)
                self.lacks = not self._full
        return self._full

    @cached_property
    def count(self) -> int:
        """How many elements it holds; it must be full."""
        # Calling a function for each would take longer than reading them.
        numbers = self._alone.enumerate().map(_number_of, synchronous=True).batch(_COUNTED_AT_ONCE)
        return int(numbers.reduce(tf.constant(0, tf.int64), _more))

    def holds_more_than(self, count: int) -> bool:
        """Return whether it holds more elements than that; it must be full."""
        if count not in self._longer_than:
            self._longer_than[count] = next(iter(self._alone.skip(count)), None) is not None
        return self._longer_than[count]

    def successor(self) -> _Memory:
        """Return another one, with the elements if this one is full: the state of an iterator over it has them all."""
        made = _Memory(self._cache, self._whole)
        if self.full:
            full, empty = iter(self._alone), iter(made._alone)
            tf.raw_ops.DeserializeIterator(resource_handle=resource_of(empty), serialized=state_of(full))
            made._longer_than = self._longer_than
        return made

    @cached_property
    def _alone(self) -> Any:
        """A dataset of what it holds; if that is not everything, its first element fails."""
        failing = build(self._cache.input).take(0).apply(tf.data.experimental.assert_cardinality(1))
        alone = self._cache.on(ir.Source(dataset=failing))
        return as_built(build(alone, iter([self.handle])))


@without_autograph
def _number_of(number: Any, *_: Any) -> Any:
    return number


@without_autograph
def _more(so_far: Any, numbers: Any) -> Any:
    return so_far + tf.size(numbers, out_type=tf.int64)
