"""What a pipeline is: a tree of immutable nodes, one per ``tf.data`` transformation.

A node holds every argument of its transformation as plain Python values, and its inputs. Nodes are equal when
their arguments and inputs are. Sources hold the live ``tf.data.Dataset`` they were read from, functions hold the
live traced function: nothing a pipeline captures is ever copied.

``AUTOTUNE`` (-1) in ``num_parallel_calls``, ``buffer_size`` or ``cycle_length`` means what it means in TensorFlow.
``num_parallel_calls=None`` is the sequential form of the transformation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

from autopipe.functions.function import Function

__all__ = [
    "AUTOTUNE",
    "Batch",
    "Cache",
    "ChooseFrom",
    "Concatenate",
    "CsvFormat",
    "End",
    "Enumerate",
    "FilesReader",
    "Filter",
    "FlatMap",
    "Generator",
    "GroupByWindow",
    "IgnoreErrors",
    "Interleave",
    "LegacyInterleave",
    "Map",
    "Node",
    "Opaque",
    "Options",
    "PaddedBatch",
    "Prefetch",
    "RandomNumbers",
    "Range",
    "Rebatch",
    "Repeat",
    "Shard",
    "Shuffle",
    "Skip",
    "Source",
    "Take",
    "TensorSlices",
    "Tensors",
    "ThreadPool",
    "Unary",
    "Unbatch",
    "Window",
    "Zip",
]

AUTOTUNE = -1


@dataclass(frozen=True, kw_only=True)
class Node:
    """One transformation.

    Attributes:
        name: the ``name=`` the user gave it.
        line: where the user wrote it, as ``file.py:12``, where that is known; nodes are equal whatever it is.
    """

    name: str | None = None
    line: str | None = field(default=None, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one reads from, in order."""
        return ()

    def on(self, *inputs: Node) -> Self:
        """Return the same transformation on other inputs."""
        if inputs:
            raise TypeError(f"{type(self).__name__} reads from no other node, but got {len(inputs)}.")
        return self


@dataclass(frozen=True, kw_only=True)
class Source(Node):
    """A node that reads from no other: the live dataset itself."""

    dataset: Any


@dataclass(frozen=True, kw_only=True)
class Tensors(Source):
    """``Dataset.from_tensors``: one element."""

    components: tuple[Any, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class TensorSlices(Source):
    """``Dataset.from_tensor_slices``: one element per row."""

    components: tuple[Any, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Range(Source):
    """``Dataset.range``."""

    start: int
    stop: int
    step: int


@dataclass(frozen=True, kw_only=True)
class RandomNumbers(Source):
    """``Dataset.random``, where every repetition gives the same numbers again."""


@dataclass(frozen=True, kw_only=True)
class Generator(Source):
    """``Dataset.from_generator``: Python code that runs again for every iterator.

    Attributes:
        fn: the function that makes the dataset.
    """

    fn: Function


@dataclass(frozen=True, kw_only=True)
class Opaque(Source):
    """A transformation autopipe does not read. It and all upstream of it stay as they are.

    Attributes:
        label: the name of its class in TensorFlow.
        reason: why it was not read.
        functions: those it and all upstream of it call.
        classes: those of it and of all upstream of it, by their names in TensorFlow.
    """

    label: str
    reason: str
    functions: tuple[Function, ...] = field(default=(), compare=False, repr=False)
    classes: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Unary(Node):
    """A transformation of one dataset."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one node this one reads from."""
        return (self.input,)

    def on(self, *inputs: Node) -> Self:
        """Return the same transformation on another input."""
        (only,) = inputs
        return replace(self, input=only)


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """What a ``CsvDataset`` makes of a line.

    Attributes:
        columns: of each that is read the name of its type, and its default as text; ``None`` where it has none.
        arguments: the other arguments, by their names.
    """

    columns: tuple[tuple[str, bytes | None], ...]
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class FilesReader(Unary):
    """A reader of the files its input names: ``TFRecordDataset``, ``TextLineDataset`` and others.

    Attributes:
        kind: ``"tfrecord"``, ``"text"``, ``"fixed_length"`` or ``"csv"``.
        num_parallel_reads: files read at once; ``None`` reads one after the other.
        buffer_size: bytes of the read buffer; ``None`` is TensorFlow's default.
        record_bytes: for ``"fixed_length"``: bytes of header, record and footer.
        csv: for ``"csv"``: what is made of a line.
    """

    kind: str
    compression_type: str | None = None
    buffer_size: int | None = None
    num_parallel_reads: int | None = None
    record_bytes: tuple[int, int, int] | None = None
    csv: CsvFormat | None = None


@dataclass(frozen=True, kw_only=True)
class Map(Unary):
    """``Dataset.map``."""

    fn: Function
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    synchronous: bool = False
    use_unbounded_threadpool: bool = False
    use_inter_op_parallelism: bool = True
    preserve_cardinality: bool = True


@dataclass(frozen=True, kw_only=True)
class Filter(Unary):
    """``Dataset.filter``."""

    predicate: Function


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
        origin: which shuffle it was, where it draws every epoch's order from its seeds: another one draws its own.
        seed_generator: the live object that gives each epoch its seed; ``None`` makes one with the dataset.
    """

    buffer_size: int
    seeds: tuple[int, int] = (0, 0)
    reshuffle_each_iteration: bool = True
    origin: Any = field(default=None, repr=False)
    seed_generator: Any = field(default=None, compare=False, repr=False)

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


@dataclass(frozen=True, kw_only=True)
class Repeat(Unary):
    """``Dataset.repeat``; a negative ``count`` repeats without end."""

    count: int = -1


@dataclass(frozen=True, kw_only=True)
class Cache(Unary):
    """``Dataset.cache``; an empty ``filename`` caches in memory.

    Attributes:
        filename: the file it is kept in.
        on_disk: whether autopipe keeps it in a folder that the user named. Until an iterator gives it a file of its
            own, elements pass it as if it were not there.
        origin: which cache of the author's it was: another one holds what was drawn for it.
    """

    filename: str = ""
    on_disk: bool = False
    origin: Any = field(default=None, repr=False)

    @property
    def in_memory(self) -> bool:
        """Whether the elements are held in memory, not in a file."""
        return not self.filename and not self.on_disk


@dataclass(frozen=True, kw_only=True)
class Prefetch(Unary):
    """``Dataset.prefetch``."""

    buffer_size: int = AUTOTUNE


@dataclass(frozen=True, kw_only=True)
class Take(Unary):
    """``Dataset.take``; -1 takes all."""

    count: int


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
class FlatMap(Unary):
    """``Dataset.flat_map``."""

    fn: Function


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
class Interleave(Unary):
    """``Dataset.interleave``."""

    fn: Function
    cycle_length: int
    block_length: int
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    buffer_output_elements: int = AUTOTUNE
    prefetch_input_elements: int = AUTOTUNE


@dataclass(frozen=True, kw_only=True)
class LegacyInterleave(Unary):
    """``tf.data.experimental.parallel_interleave``, with which ``make_csv_dataset`` reads its files.

    It takes other turns than :class:`Interleave` once two datasets in a row have ended, and has threads of its own.
    """

    fn: Function
    cycle_length: int
    block_length: int
    deterministic: bool | None
    buffer_output_elements: int
    prefetch_input_elements: int


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


@dataclass(frozen=True, kw_only=True)
class End(Unary):
    """Where the consumer reads. It stands above the last transformation while rules look at the tree."""


@dataclass(frozen=True, kw_only=True)
class Zip(Node):
    """``Dataset.zip``; ``structure`` is the nest the inputs stand in, with their positions as leaves."""

    parts: tuple[Node, ...]
    structure: Any = field(hash=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The zipped nodes, in the order of the flattened structure."""
        return self.parts

    def on(self, *inputs: Node) -> Self:
        """Return the same structure of other inputs."""
        return replace(self, parts=inputs)


@dataclass(frozen=True, kw_only=True)
class Concatenate(Node):
    """``Dataset.concatenate``."""

    first: Node
    second: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The node read first, then the other."""
        return (self.first, self.second)

    def on(self, *inputs: Node) -> Self:
        """Return the concatenation of other inputs."""
        first, second = inputs
        return replace(self, first=first, second=second)


@dataclass(frozen=True, kw_only=True)
class ChooseFrom(Node):
    """``Dataset.choose_from_datasets``; ``sample_from_datasets`` is one whose choices are drawn.

    Attributes:
        choices: gives the positions of the parts that elements are taken from, in turn.
        parts: what they are taken from.
        stop_on_empty: whether the first part that ends is the end; if not, the others go on.
        element_spec: what the types of the parts have in common.
    """

    choices: Node
    parts: tuple[Node, ...]
    stop_on_empty: bool
    element_spec: Any = field(hash=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The choices, then the parts."""
        return (self.choices, *self.parts)

    def on(self, *inputs: Node) -> Self:
        """Return what other choices take from other parts."""
        choices, *parts = inputs
        return replace(self, choices=choices, parts=tuple(parts))
