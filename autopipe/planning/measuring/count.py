"""How many elements a pipeline has, where TensorFlow does not know before it has read them."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from autopipe.functions.analysis.csv_rows import has_a_line_for_each_row
from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rows import who_mixes_rows
from autopipe.functions.analysis.work import inner_work
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.cache_files import writing_none
from autopipe.pipeline.signature import signature
from autopipe.planning.measuring.samples import from_several_places, without_buffers
from autopipe.rules import MeasurementError
from autopipe.sentences import one_sentence

__all__ = ["BYTES_BESIDE", "bytes_in_files", "examples_in_batch", "most_elements", "most_known"]

_COUNTING_SECONDS = 1.0
# Where the function that reads a file works on what is in it, a cache saves most.
_ONE_FILE_SECONDS = 5.0
_MOST_FILES = 100_000
_FEW = 8
_LOOKING_SECONDS = 0.05
# So many fill groups of the usual sizes a few times.
_FEW_IN_GROUPS = 256
_MORE = 4
# What groups are made of may be slow, and is asked for again wherever a cache could stand before it.
_GROUPING_SECONDS = 0.25
_MOST_AT_ONCE = 1024
_READ_AT_ONCE = 2**22
# What follows a batch and leaves it one.
_AFTER_BATCHES = (
    ir.Map | ir.MemoizedMap | ir.Filter | ir.Shuffle | ir.Repeat | ir.Take | ir.Skip | ir.Shard | ir.Cache | ir.Prefetch
    | ir.AssertCardinality | ir.Enumerate | ir.IgnoreErrors | ir.Options | ir.ThreadPool | ir.End
)  # fmt: skip
# What gives no more elements than it takes.
_NO_MORE = (
    ir.Map | ir.MemoizedMap | ir.Filter | ir.Scan | ir.Shuffle | ir.Take | ir.TakeWhile | ir.Skip | ir.Shard
    | ir.Cache | ir.Prefetch | ir.Enumerate | ir.IgnoreErrors | ir.Options | ir.ThreadPool
)  # fmt: skip
BYTES_BESIDE = {"tfrecord": 16, "text": 1, "fixed_length": 0}
"""What a file holds beside a record, by its kind: of a TFRecord its length and two checksums, of a line its end."""

# What counting the elements of a stage came to; the reason where it could not be done. An error would hold what its
# traceback does: samples, among others.
_COUNTED: WeakKeyDictionary[ir.Node, int | str] = WeakKeyDictionary()


def most_known(node: ir.Node) -> float:
    """Return the most elements a pipeline has, as TensorFlow knows without running it; infinity where it does not.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9)
    >>> [most_known(extract(each)) for each in (numbers.ignore_errors().batch(4), numbers.repeat())]
    [3, inf]
    """
    cardinality = signature(node).cardinality
    if cardinality >= 0:
        return cardinality
    match node:
        case ir.Batch(batch_size=size) | ir.PaddedBatch(batch_size=size):
            most = most_known(node.input)
            return most if math.isinf(most) else -(-most // size)
        case ir.Unary() if isinstance(node, _NO_MORE):
            return most_known(node.input)
    return math.inf


def most_elements(node: ir.Node) -> int:
    """Return the most elements a finite pipeline has.

    Elements of files are counted in as many whole files as a second allows, and taken to be as many per byte in the
    others; where that is not one, elements are taken to be as long as the first, if the files are not compressed, and
    rows of CSV files to be no more than there are lines. What other functions make of one element is counted too, and
    its mean, with two standard errors, taken for the rest.

    Raises:
        MeasurementError: if the number is without end, or cannot be known without reading everything.
    """
    cardinality = signature(node).cardinality
    if cardinality >= 0:
        return cardinality
    match node:
        case ir.FilesReader():
            return _once(_elements_of_files, node)
        case ir.FlatMap(fn=fn) | ir.Interleave(fn=fn) | ir.LegacyInterleave(fn=fn) if effects(fn).file_reads:
            return _once(_elements_of_files, node)
        case ir.FlatMap(fn=fn) | ir.Interleave(fn=fn) | ir.LegacyInterleave(fn=fn) if effects(fn).steady:
            return _once(_elements_of_each, node)
        case ir.GroupByWindow() if all(effects(fn).steady for fn in trees.called_by(node)):
            return _once(_elements_of_groups, node)
        case ir.Generator(fn=fn) | ir.Saved(fn=fn) if effects(fn).steady:
            return _once(_elements_of_all, node)
        case ir.Concatenate(first=first, second=second):
            return most_elements(first) + most_elements(second)
        case ir.Zip(parts=parts):
            return _fewest(parts)
        case ir.Batch(batch_size=size) | ir.PaddedBatch(batch_size=size):
            return -(-most_elements(node.input) // size)
        case ir.Opaque(inside=ir.Node() as inside):
            return most_elements(inside)
        case ir.Unbatch() if (batch := _batch_of_rows(node)) is not None:
            return most_elements(batch.input)
        case ir.Unary() if isinstance(node, _NO_MORE):
            return most_elements(node.input)
    raise MeasurementError("the number of elements is not known before they are read")


def _fewest(parts: Sequence[ir.Node]) -> int:
    """Return the most elements of the side that has the fewest, of those sides of which that is known."""
    counted: list[int] = []
    for part in parts:
        with suppress(MeasurementError):
            counted.append(most_elements(part))
    if not counted:
        raise MeasurementError("no side of a zip has a number of elements that is known before they are read")
    return min(counted)


def _batch_of_rows(node: ir.Unbatch) -> ir.Batch | None:
    """Return the batch whose rows come apart, with something else in place of each; ``None`` if they may be others."""
    below = node.input
    while isinstance(below, ir.Map) and who_mixes_rows(below.fn) is None:
        below = below.input
    return below if isinstance(below, ir.Batch) else None


def examples_in_batch(node: ir.Node) -> int | None:
    """Return how many examples an element of a pipeline that batches them holds; ``None`` where it is no batch.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9)
    >>> [examples_in_batch(extract(each)) for each in (numbers.batch(4).prefetch(2), numbers.batch(4).unbatch())]
    [4, None]
    """
    batches = trees.past(node, _AFTER_BATCHES)
    return batches.batch_size if isinstance(batches, ir.Batch | ir.PaddedBatch | ir.Rebatch) else None


def _once(count: Callable[[Any], int], node: ir.Node) -> int:
    """Return what counting comes to, counted once."""
    # An equal node of another thread may be gone meanwhile.
    known = _COUNTED.get(node)
    if known is None:
        try:
            known = count(node)
        except MeasurementError as unknown:
            known = str(unknown)
        except tf.errors.OpError as failed:
            known = f"an element raised while they were counted: {one_sentence(failed)}"
        _COUNTED[node] = known
    if isinstance(known, str):
        raise MeasurementError(known)
    return known


def _elements_of_all(node: ir.Node) -> int:
    elements = _count(build(writing_none(node)), time.perf_counter() + _COUNTING_SECONDS)
    if elements is None:
        raise MeasurementError("it has more elements than can be counted in a second")
    return elements


def _elements_of_each(node: ir.FlatMap | ir.Interleave | ir.LegacyInterleave) -> int:
    """Return how many elements a stage makes of those of its input."""
    inputs = most_elements(node.input)
    end = time.perf_counter() + _COUNTING_SECONDS
    made: list[int] = []
    for element in build(writing_none(node.input)):
        elements = _count(_of_one(node, element), end)
        if elements is None:
            break
        made.append(elements)
        if time.perf_counter() > end:
            break
    if not made:
        raise MeasurementError(f"more elements are made of one than can be counted in {_COUNTING_SECONDS:g} s")
    error = statistics.stdev(made) / len(made) ** 0.5 if len(made) > 1 else 0.0
    return math.ceil((statistics.mean(made) + (2 * error if len(made) < inputs else 0.0)) * inputs)


def _elements_of_groups(node: ir.GroupByWindow) -> int:
    """Return how many elements a stage makes of the groups of its input, if it makes of all what it makes of some."""
    inputs = most_elements(node.input)
    once = most_elements(without_buffers(node.input))
    end = time.perf_counter() + _GROUPING_SECONDS
    taken = made = 0
    while taken < once and time.perf_counter() < end:
        taking = min(max(_MORE * taken, _FEW_IN_GROUPS), once)
        elements = _count(build(writing_none(node.on(_some(node.input, taking)))), end, few=1)
        if elements is None:
            break
        taken, made = taking, elements
    if not taken and inputs:
        raise MeasurementError(f"in {_GROUPING_SECONDS:g} s not even {_FEW_IN_GROUPS} elements can be put into groups")
    return math.ceil(made * inputs / max(taken, 1))


def _some(node: ir.Node, count: int) -> ir.Node:
    """Return about so many elements of a pipeline, of several places where that costs nothing."""
    places = from_several_places(node, count)
    parts: list[ir.Node] = [ir.Take(input=each, count=-(-count // len(places))) for each in places]
    return reduce(lambda first, second: ir.Concatenate(first=first, second=second), parts)


def _elements_of_files(reader: ir.FilesReader | ir.FlatMap | ir.Interleave | ir.LegacyInterleave) -> int:
    """Return how many elements a stage makes of the files that its input names."""
    names = _names(reader.input)
    if not names and not isinstance(reader, ir.FilesReader):
        # Each element tells of its file in a way of its own, as those of TensorFlow Datasets do.
        return _elements_of_each(reader)
    sizes, size = _sizes(names)
    if not sizes or len(names) == _MOST_FILES:
        raise MeasurementError("the names of its files could not be listed")
    counted, read = _count_files(reader, sizes)
    if counted and read:
        return int(counted * size / read) + len(names)
    if _are_lines(reader):
        return _lines(names, size)
    if isinstance(reader, ir.FilesReader) and not reader.csv and not reader.compression_type:
        return math.ceil(size / _bytes_of_element(reader))
    raise MeasurementError("its files are too large to be counted in some seconds")


def bytes_in_files(reader: ir.Node) -> float:
    """Return how many bytes the files have that the input of a stage names; 0 if it names none."""
    (named,) = reader.inputs
    names = _names(named)
    return _sizes(names)[1] if names else 0.0


def _names(node: ir.Node) -> list[bytes]:
    """Return the names that a pipeline gives, if names are what it gives."""
    spec = signature(node).element_spec
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string or spec.shape.rank != 0:
        return []
    batches = build(writing_none(node)).take(_MOST_FILES).batch(_MOST_AT_ONCE).as_numpy_iterator()
    return list(chain.from_iterable(batches))


def _sizes(names: list[bytes]) -> tuple[dict[bytes, int], float]:
    """Return the bytes of each file that a second allows to ask for, and of all, the others taken to be as large."""
    sizes: dict[bytes, int] = {}
    asked, total = 0, 0.0
    end = time.perf_counter() + _COUNTING_SECONDS
    # Were they in an order by size, those of the beginning would tell little of the others.
    for name in _mixed(names):
        asked += 1
        # TensorFlow cannot say of a name that is no UTF-8 that it is not found.
        with suppress(tf.errors.NotFoundError, UnicodeDecodeError):
            sizes[name] = tf.io.gfile.stat(name).length
            total += sizes[name]
        if time.perf_counter() > end:
            break
    return sizes, total * len(names) / max(asked, 1)


def _count_files(
    reader: ir.FilesReader | ir.FlatMap | ir.Interleave | ir.LegacyInterleave, sizes: dict[bytes, int]
) -> tuple[int, int]:
    """Return how many elements those files have that can be counted in a second, and how many bytes these take.

    The smallest is the first, since some have to be counted. More and more are read as one: it takes milliseconds to
    make a pipeline for them.
    """
    smallest = min(sizes, key=sizes.__getitem__)
    order = [smallest, *(name for name in _mixed(list(sizes)) if name != smallest)]
    counted = read = done = 0
    end = time.perf_counter() + _COUNTING_SECONDS
    longest = max(end, time.perf_counter() + _ONE_FILE_SECONDS) if _works_inside(reader) else end
    while done < len(order) and time.perf_counter() < end:
        names = order[done : 2 * done or 1]
        elements = _count(_of_each(reader, names), end if done else longest)
        if elements is None:
            break
        counted += elements
        read += sum(sizes[name] for name in names)
        done += len(names)
    return counted, read


def _works_inside(reader: ir.FilesReader | ir.FlatMap | ir.Interleave | ir.LegacyInterleave) -> bool:
    """Return whether its function works on elements; of parsed rows, lines tell the number."""
    return not _are_lines(reader) and any(map(inner_work, trees.called_by(reader)))


def _mixed(names: list[bytes]) -> list[bytes]:
    return random.Random(0).sample(names, len(names))


def _are_lines(reader: ir.FilesReader | ir.FlatMap | ir.Interleave | ir.LegacyInterleave) -> bool:
    """Return whether files have no more elements than lines."""
    if isinstance(reader, ir.FilesReader):
        return reader.csv is not None and not reader.compression_type
    return has_a_line_for_each_row(reader.fn)


def _lines(names: list[bytes], size: float) -> int:
    """Return how many lines files have: those of a second, and as many per byte in the rest.

    A row may have several lines, in quotes, but no line has several rows.
    """
    counted = read = 0
    end = time.perf_counter() + _COUNTING_SECONDS
    for name in names:
        if time.perf_counter() > end:
            break
        with tf.io.gfile.GFile(name, "rb") as file:
            while (part := file.read(_READ_AT_ONCE)) and time.perf_counter() < end:
                counted += part.count(b"\n")
                read += len(part)
    if not read:
        raise MeasurementError("its files could not be read in a second")
    return math.ceil(counted * size / read) + len(names)


def _bytes_of_element(reader: ir.FilesReader) -> float:
    """Return how many bytes of its files an element takes at the least: the mean of the first, less two errors."""
    lengths: list[int] = [int(each) for each in build(writing_none(reader)).map(tf.strings.length).take(_MOST_AT_ONCE)]
    if len(lengths) < 2:
        raise MeasurementError("its files have elements too large to be counted in a second")
    error = statistics.stdev(lengths) / len(lengths) ** 0.5
    return float(max(statistics.mean(lengths) + BYTES_BESIDE[reader.kind] - 2 * error, 1.0))


def _of_one(stage: ir.Node, element: Any) -> Any:
    """Return the dataset that a stage makes of one element."""
    return build(stage.on(ir.Source(dataset=tf.data.Dataset.from_tensors(element))))


def _of_each(stage: ir.Node, elements: list[bytes]) -> Any:
    """Return the dataset that a stage makes of some elements."""
    return build(stage.on(ir.Source(dataset=tf.data.Dataset.from_tensor_slices(elements))))


def _count(dataset: Any, end: float, few: int = _FEW) -> int | None:
    """Return the number of elements; ``None`` if time is up before. Fewer than ``few`` are waited for."""
    began = time.perf_counter()
    first = sum(1 for _ in dataset.take(few))
    if first < few:
        return first
    if time.perf_counter() > end:
        return None
    # Python takes longer to handle an element than TensorFlow takes to read a line.
    at_once = min(round(_LOOKING_SECONDS * first / (time.perf_counter() - began)), _MOST_AT_ONCE)
    elements = 0
    parts = tf.nest.flatten(dataset.element_spec)
    if not all(isinstance(part, tf.TensorSpec) and part.shape.rank == 0 for part in parts):
        dataset = dataset.map(lambda *_: tf.constant(0, tf.int8))
    for counted in dataset.batch(max(at_once, 1)):
        elements += len(tf.nest.flatten(counted)[0])
        if time.perf_counter() > end:
            return None
    return elements
