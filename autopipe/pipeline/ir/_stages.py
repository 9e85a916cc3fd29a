"""Transformations of one dataset that call no function."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

from autopipe.pipeline.ir._base import AUTOTUNE, Node, Unary

__all__ = [
    "AssertCardinality",
    "Batch",
    "Batching",
    "Cache",
    "Enumerate",
    "IgnoreErrors",
    "Options",
    "PaddedBatch",
    "Prefetch",
    "Rebatch",
    "Repeat",
    "Shard",
    "Shuffle",
    "Skip",
    "Take",
    "ThreadPool",
    "Unbatch",
    "Window",
]


@dataclass(frozen=True, kw_only=True)
class Batch(Unary):
    """``Dataset.batch``."""

    batch_size: int
    drop_remainder: bool = False
    num_parallel_calls: int | None = None
    deterministic: bool | None = None


@dataclass(frozen=True, kw_only=True)
class PaddedBatch(Unary):
    """``Dataset.padded_batch``; shapes and values flat, -1 for a dimension that is padded to the longest."""

    batch_size: int
    padded_shapes: tuple[tuple[int, ...], ...]
    padding_values: tuple[Any, ...]
    drop_remainder: bool = False


@dataclass(frozen=True, kw_only=True)
class Unbatch(Unary):
    """``Dataset.unbatch``."""


@dataclass(frozen=True, kw_only=True)
class Rebatch(Unary):
    """``Dataset.rebatch`` with one batch size: ``unbatch`` and ``batch`` in one step."""

    batch_size: int
    drop_remainder: bool = False


@dataclass(frozen=True, kw_only=True)
class Window(Unary):
    """``Dataset.window``: each element is a dataset of ``size`` elements, the next one starts ``shift`` later."""

    size: int
    shift: int
    stride: int = 1
    drop_remainder: bool = False


@dataclass(frozen=True, kw_only=True)
class IgnoreErrors(Unary):
    """``Dataset.ignore_errors``: an element whose function fails is left out."""

    log_warning: bool = False


@dataclass(frozen=True, kw_only=True)
class Shuffle(Unary):
    """``Dataset.shuffle``.

    Attributes:
        buffer_size: how many elements it holds; a negative number holds all of them.
        seeds: TensorFlow's (graph seed, op seed) pair; (0, 0) when unseeded.
        origin: identifies the shuffle if it draws every epoch's order from its seeds: another one draws its own.
        seed_generator: the live object that gives each epoch its seed; ``None`` makes one with the dataset.
        while_filling: how many it holds while the memory cache it reads from is being filled; ``None`` if that is the
            same number. Before a cache is full, waiting for all its elements would be useless.
        from_before_the_work: whether it was moved from before the maps whose results a memory cache holds to after that
            cache, and may move back before them while the cache fills.
    """

    buffer_size: int
    seeds: tuple[int, int] = (0, 0)
    reshuffle_each_iteration: bool = True
    origin: Any = field(default=None, repr=False)
    seed_generator: Any = field(default=None, compare=False, repr=False)
    while_filling: int | None = None
    from_before_the_work: bool = False

    @property
    def seeded(self) -> bool:
        """Whether the author asked for the same order in every run."""
        return self.seeds != (0, 0)

    @property
    def capacity(self) -> float:
        """How many elements it may hold; infinite if it holds all there are."""
        return math.inf if self.buffer_size < 0 else self.buffer_size

    @property
    def mixes(self) -> bool:
        """Whether elements may change places."""
        return self.buffer_size != 1

    @property
    def mixes_anew(self) -> bool:
        """Whether each epoch has its own order."""
        return self.mixes and self.reshuffle_each_iteration


@dataclass(frozen=True, kw_only=True)
class Repeat(Unary):
    """``Dataset.repeat``; a negative ``count`` repeats without end."""

    count: int = -1

    @property
    def is_infinite(self) -> bool:
        """Whether it repeats without end."""
        return self.count < 0

    @property
    def goes_on(self) -> bool:
        """Whether it may give more than one epoch."""
        return self.count not in (0, 1)


@dataclass(frozen=True, kw_only=True)
class Cache(Unary):
    """``Dataset.cache``; an empty ``filename`` caches in memory.

    Attributes:
        filename: the file it is kept in.
        on_disk: whether autopipe keeps it in a folder that the user named. Until an iterator gives it a file of its
            own, elements pass it as if it were not there.
        origin: identifies the author's cache: another one holds what was drawn for it.
    """

    filename: str = ""
    on_disk: bool = False
    origin: Any = field(default=None, repr=False)

    def on(self, *inputs: Node) -> Self:
        """Return a cache of another input, which is therefore not the author's."""
        (only,) = inputs
        return self if only is self.input else replace(self, input=only, origin=None)

    @property
    def in_memory(self) -> bool:
        """Whether the elements are held in memory, not in a file."""
        return not self.filename and not self.on_disk

    @property
    def kept(self) -> Node:
        """What it holds once it is full."""
        return self.input


@dataclass(frozen=True, kw_only=True)
class Prefetch(Unary):
    """``Dataset.prefetch``."""

    buffer_size: int = AUTOTUNE


@dataclass(frozen=True, kw_only=True)
class Take(Unary):
    """``Dataset.take``; a negative ``count`` takes all."""

    count: int

    @property
    def takes_all(self) -> bool:
        """Whether it passes on all elements."""
        return self.count < 0


@dataclass(frozen=True, kw_only=True)
class Skip(Unary):
    """``Dataset.skip``; -1 skips all."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Shard(Unary):
    """``Dataset.shard``."""

    num_shards: int
    index: int


@dataclass(frozen=True, kw_only=True)
class Enumerate(Unary):
    """``Dataset.enumerate``."""

    start: int = 0


@dataclass(frozen=True, kw_only=True)
class AssertCardinality(Unary):
    """``tf.data.experimental.assert_cardinality``: an epoch of another number of elements is an error."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Options(Unary):
    """``Dataset.with_options``."""

    options: Any = field(hash=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ThreadPool(Unary):
    """The threads that run the functions of a pipeline.

    Attributes:
        size: how many there are; 0 is TensorFlow's own number.
        max_intra_op_parallelism: how many of them one operation may use; 0 is TensorFlow's own number.
    """

    size: int = 0
    max_intra_op_parallelism: int = 0


Batching = Batch | PaddedBatch
"""The nodes that stack elements into batches."""

PassingOn = AssertCardinality | Options | Prefetch
"""The nodes that give the elements they take, in the same order."""
