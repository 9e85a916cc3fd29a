"""Numbering elements where each epoch still has the same ones, before stages that only move or choose them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import NamedTuple

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.joined.numbered import (
    ELEMENTS_OF_FILE,
    behind_number,
    numbering_elements,
    opens_one_file,
    reads_in_order,
)
from autopipe.functions.parts.fixed_part import changes_between_epochs
from autopipe.pipeline.files import read_one
from autopipe.pipeline.ir import (
    AUTOTUNE,
    AssertCardinality,
    ChooseFrom,
    Concatenate,
    Enumerate,
    FilesReader,
    Filter,
    FlatMap,
    Interleave,
    Map,
    MemoizedMap,
    Node,
    Options,
    Prefetch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
    Unbatch,
)
from autopipe.pipeline.signature import signature
from autopipe.pipeline.trees import walk

__all__ = ["LEAST_SAVED_SECONDS", "Numbered", "memoized", "moved_since", "numbered"]

# Finding a result takes about 15 us.
LEAST_SAVED_SECONDS = 100e-6
# None of them looks at elements.
_MOVING = (AssertCardinality, Options, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
# More than a source has elements.
_ELEMENTS_OF_SOURCE = 2**52
_MOST_FILES = _ELEMENTS_OF_SOURCE // ELEMENTS_OF_FILE


class Numbered(NamedTuple):
    """Elements with the numbers they got at their sources, and all elements of the sources, without numbers."""

    elements: Node
    source: Node


def memoized(mapped: Map, fn: Function, elements: Node, source: Node, *, ahead: int = 0) -> MemoizedMap:
    """Return a memoized map that calls a function as a map does, for elements with numbers."""
    return MemoizedMap(
        input=elements,
        fn=fn,
        source=source,
        # TensorFlow makes a steady map parallel by itself.
        num_parallel_calls=AUTOTUNE if mapped.num_parallel_calls is None else mapped.num_parallel_calls,
        deterministic=mapped.deterministic,
        use_unbounded_threadpool=mapped.use_unbounded_threadpool,
        ahead=ahead,
        line=mapped.line,
    )


def moved_since(node: Node) -> tuple[Node, list[Node]]:
    """Return the source of elements, and the stages after it that only move them, the last one first."""
    moved: list[Node] = []
    while isinstance(node, _MOVING):
        moved.append(node)
        node = node.input
    return node, moved


def numbered(node: Node) -> Numbered:
    """Return a pipeline whose elements have unique numbers.

    Elements of files that are shuffled, or read several at once, have the number of their file and their place in it.
    """
    sources: list[Node] = []
    starts = count(step=_ELEMENTS_OF_SOURCE)
    elements = _number(node, sources, starts)
    return Numbered(elements, _joined(sources))


def _joined(sources: list[Node]) -> Node:
    return reduce(lambda first, second: Concatenate(first=first, second=second), sources)


def _number(node: Node, sources: list[Node], starts: Iterator[int]) -> Node:
    if not _differs(node):
        sources.append(node)
        return Enumerate(input=node, start=next(starts))
    match node:
        case Concatenate():
            return node.on(*(_number(each, sources, starts) for each in node.inputs))
        case ChooseFrom(parts=parts):
            spec = (tf.TensorSpec((), tf.int64), node.element_spec)
            return replace(node, parts=tuple(_number(each, sources, starts) for each in parts), element_spec=spec)
        case Filter():
            return replace(node, input=_number(node.input, sources, starts), predicate=behind_number(node.predicate))
        case FilesReader() | FlatMap() | Interleave():
            opening = _opening(node)
            names: list[Node] = []
            files = _number(node.input, names, (start // ELEMENTS_OF_FILE for start in starts))
            sources.append(node.on(_joined(names)))
            return replace(opening, input=files, fn=numbering_elements(opening.fn))
    assert isinstance(node, _MOVING)
    return node.on(_number(node.input, sources, starts))


def _opening(node: FilesReader | FlatMap | Interleave) -> FlatMap | Interleave:
    """Return a stage that opens files as one that calls a function for each."""
    if not isinstance(node, FilesReader):
        return node
    fn = read_one(replace(node, num_parallel_reads=None))
    if node.num_parallel_reads is None:
        return FlatMap(input=node.input, fn=fn, name=node.name, line=node.line)
    calls = node.num_parallel_reads
    return Interleave(
        input=node.input,
        fn=fn,
        cycle_length=calls,
        block_length=1,
        num_parallel_calls=calls,
        name=node.name,
        line=node.line,
    )


def _differs(node: Node) -> bool:
    """Return whether elements at a place in a pipeline may differ between epochs, or repeat within one.

    Elements must then be numbered before that place.
    """
    match node:
        case Repeat() | ChooseFrom() | Concatenate():
            return True
        case Shuffle(mixes_anew=True):
            return True
        case Filter(predicate=predicate) if changes_between_epochs(predicate):
            return True
        case FilesReader() | FlatMap() | Interleave() if _opens_files(node):
            # One of several files may fail in one epoch only, and be shorter then.
            several = signature(node.input).cardinality > 1
            return several or _reads_at_once(node) or _differs(node.input)
    return isinstance(node, (*_MOVING, Filter)) and _differs(node.input)


def _opens_files(node: FilesReader | FlatMap | Interleave) -> bool:
    """Return whether a stage reads the files of some names, each in order, and the names are known beforehand."""
    stages = list(walk(node.input))
    if any(isinstance(each, FilesReader | FlatMap | Interleave | Unbatch) for each in stages):
        return False
    counts = [signature(each).cardinality for each in stages if not each.inputs]
    if not all(0 <= each <= _MOST_FILES for each in counts):
        return False
    if isinstance(node, FilesReader):
        return node.csv is None and node.num_parallel_reads in (None, AUTOTUNE)
    return reads_in_order(node.fn) and opens_one_file(node.fn)


def _reads_at_once(node: FilesReader | FlatMap | Interleave) -> bool:
    """Return whether a stage may read several files at once, and give first whatever is ready first."""
    if isinstance(node, FilesReader):
        return node.num_parallel_reads is not None
    return isinstance(node, Interleave) and node.num_parallel_calls is not None and node.deterministic is not True
