"""What a pipeline is: a tree of immutable nodes, one per ``tf.data`` transformation.

A node holds every argument of its transformation as plain Python values, and its inputs. Nodes are equal when
their arguments and inputs are. Sources hold the live ``tf.data.Dataset`` they were read from, functions hold the
live traced function: nothing a pipeline captures is ever copied.

``AUTOTUNE`` (-1) in ``num_parallel_calls``, ``buffer_size`` or ``cycle_length`` means what it means in TensorFlow.
``num_parallel_calls=None`` is the sequential form of the transformation.
"""

from __future__ import annotations

from autopipe.pipeline.ir._base import ALL_ELEMENTS, AUTOTUNE, End, Node, Source, Unary
from autopipe.pipeline.ir._calls import (
    Filter,
    FlatMap,
    Flattening,
    GroupByWindow,
    Interleave,
    Keeping,
    LegacyInterleave,
    Map,
    Mapping,
    MemoizedMap,
    Scan,
    TakeWhile,
)
from autopipe.pipeline.ir._files import CsvFormat, FilesReader
from autopipe.pipeline.ir._joins import ChooseFrom, Concatenate, Zip
from autopipe.pipeline.ir._sources import (
    Generator,
    Opaque,
    RandomNumbers,
    Range,
    Saved,
    SharedCache,
    Tensors,
    TensorSlices,
)
from autopipe.pipeline.ir._stages import (
    AssertCardinality,
    Batch,
    Batching,
    Cache,
    Enumerate,
    IgnoreErrors,
    Options,
    PaddedBatch,
    PassingOn,
    Prefetch,
    Rebatch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
    ThreadPool,
    Unbatch,
    Window,
)

__all__ = [
    "ALL_ELEMENTS",
    "AUTOTUNE",
    "AssertCardinality",
    "Batch",
    "Batching",
    "Cache",
    "ChooseFrom",
    "Concatenate",
    "CsvFormat",
    "End",
    "Enumerate",
    "FilesReader",
    "Filter",
    "FlatMap",
    "Flattening",
    "Generator",
    "GroupByWindow",
    "IgnoreErrors",
    "Interleave",
    "Keeping",
    "LegacyInterleave",
    "Map",
    "Mapping",
    "MemoizedMap",
    "Node",
    "Opaque",
    "Options",
    "PaddedBatch",
    "PassingOn",
    "Prefetch",
    "RandomNumbers",
    "Range",
    "Rebatch",
    "Repeat",
    "Saved",
    "Scan",
    "Shard",
    "SharedCache",
    "Shuffle",
    "Skip",
    "Source",
    "Take",
    "TakeWhile",
    "TensorSlices",
    "Tensors",
    "ThreadPool",
    "Unary",
    "Unbatch",
    "Window",
    "Zip",
]
