"""Transformations of one dataset that call a function of the user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from autopipe.functions.function import Function
from autopipe.pipeline.ir._base import AUTOTUNE, Node, Unary
from autopipe.pipeline.ir._stages import Cache, Enumerate

__all__ = [
    "Filter",
    "FlatMap",
    "Flattening",
    "GroupByWindow",
    "Interleave",
    "Keeping",
    "LegacyInterleave",
    "Map",
    "Mapping",
    "MemoizedMap",
    "Scan",
    "TakeWhile",
]


@dataclass(frozen=True, kw_only=True)
class Map(Unary):
    """``Dataset.map``.

    Attributes:
        in_order: whether it was sequential as written, so that no option after it may free its order.
    """

    fn: Function
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    in_order: bool = field(default=False, compare=False, repr=False)
    synchronous: bool = False
    use_unbounded_threadpool: bool = False
    use_inter_op_parallelism: bool = True
    preserve_cardinality: bool = True

    @property
    def one_for_one(self) -> bool:
        """Whether it gives one element for each, and may be called ahead."""
        return self.preserve_cardinality and not self.synchronous

    @property
    def one_for_one_in_order(self) -> bool:
        """Whether it is ``one_for_one``, and was not asked to give elements in any order."""
        return self.one_for_one and self.deterministic is not False


@dataclass(frozen=True, kw_only=True)
class MemoizedMap(Unary):
    """``Dataset.map`` of elements that :class:`Enumerate` numbered: a function is called once for each number.

    Its results are kept in memory. Unlike a cache this may be read in part and in any order, and an element that fails
    is tried again the next time.

    Attributes:
        fn: takes the element, without its number.
        source: all elements, without numbers.
        in_order: as for :class:`Map`.
        use_unbounded_threadpool: as for :class:`Map`.
        ahead: how many tensors stand before the number. They are passed on, as are those that ``fn`` does not take.
        table: the live object that holds the results; ``None`` makes one with the dataset.
    """

    fn: Function
    source: Node = field(compare=False, repr=False)
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    in_order: bool = field(default=False, compare=False, repr=False)
    use_unbounded_threadpool: bool = False
    ahead: int = 0
    table: Any = field(default=None, compare=False, repr=False)

    in_memory: ClassVar[bool] = True
    on_disk: ClassVar[bool] = False

    @property
    def kept(self) -> Enumerate:
        """What it holds once every element was read: results, each with its number."""
        made = Map(
            input=self.source,
            fn=self.fn,
            num_parallel_calls=self.num_parallel_calls,
            use_unbounded_threadpool=self.use_unbounded_threadpool,
        )
        return Enumerate(input=made)


@dataclass(frozen=True, kw_only=True)
class Filter(Unary):
    """``Dataset.filter``."""

    predicate: Function


@dataclass(frozen=True, kw_only=True)
class TakeWhile(Unary):
    """``Dataset.take_while``: the first element that the predicate is false for ends the epoch."""

    predicate: Function


@dataclass(frozen=True, kw_only=True)
class FlatMap(Unary):
    """``Dataset.flat_map``."""

    fn: Function


@dataclass(frozen=True, kw_only=True)
class Interleave(Unary):
    """``Dataset.interleave``; ``in_order`` is as for :class:`Map`."""

    fn: Function
    cycle_length: int
    block_length: int
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    in_order: bool = field(default=False, compare=False, repr=False)
    buffer_output_elements: int = AUTOTUNE
    prefetch_input_elements: int = AUTOTUNE


@dataclass(frozen=True, kw_only=True)
class LegacyInterleave(Unary):
    """``tf.data.experimental.parallel_interleave``, with which ``make_csv_dataset`` reads its files.

    It takes other turns than :class:`Interleave` once two datasets in a row have ended, and has its own threads.
    """

    fn: Function
    cycle_length: int
    block_length: int
    deterministic: bool | None
    buffer_output_elements: int
    prefetch_input_elements: int

    @property
    def is_parallel(self) -> bool:
        """Whether it makes several elements at once, which it always does."""
        return True


@dataclass(frozen=True, kw_only=True)
class GroupByWindow(Unary):
    """``Dataset.group_by_window``; ``bucket_by_sequence_length`` is one.

    Attributes:
        key_func: gives the group of an element.
        reduce_func: makes a dataset of a full group.
        window_size_func: gives the number of elements that fill a group.
    """

    key_func: Function
    reduce_func: Function
    window_size_func: Function


@dataclass(frozen=True, kw_only=True)
class Scan(Unary):
    """``Dataset.scan``; ``Dataset.counter`` is one. Each element is made of the one before it, too.

    Attributes:
        fn: takes a state and an element, and returns the next state and the new element.
        initial_state: the flat tensors that every iterator begins with.
        use_default_device: whether the function may run elsewhere than the dataset does.
    """

    fn: Function
    initial_state: tuple[Any, ...] = field(compare=False, repr=False)
    use_default_device: bool = True


Mapping = Map | MemoizedMap
"""The nodes that give what a function makes of each element."""

Keeping = Cache | MemoizedMap
"""The nodes that keep elements for later epochs."""

Flattening = FlatMap | Interleave | LegacyInterleave
"""The nodes that make a dataset of each element, and give the elements of these."""
