"""How many elements a pipeline has, if TensorFlow does not know before it has read them."""

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
# If the function that reads a file also processes its elements, counting may take longer: a cache saves most there.
_ONE_FILE_SECONDS = 5.0
_MOST_FILES = 100_000
_FEW = 8
_LOOKING_SECONDS = 0.05
# This many elements fill groups of the usual sizes a few times.
_FEW_IN_GROUPS = 256
_MORE = 4
# The input of groups may be slow, and is counted again wherever a cache could stand before it.
_GROUPING_SECONDS = 0.25
_MOST_AT_ONCE = 1024
_READ_AT_ONCE = 2**22
# Stages whose elements are still batches if their input is.
_AFTER_BATCHES = (
    ir.Mapping | ir.Filter | ir.Shuffle | ir.Repeat | ir.Take | ir.Skip | ir.Shard | ir.Cache | ir.Prefetch
    | ir.AssertCardinality | ir.Enumerate | ir.IgnoreErrors | ir.Options | ir.ThreadPool | ir.End
)  # fmt: skip
# Stages that give no more elements than they take.
_NO_MORE = (
    ir.Mapping | ir.Filter | ir.Scan | ir.Shuffle | ir.Take | ir.TakeWhile | ir.Skip | ir.Shard
    | ir.Cache | ir.Prefetch | ir.Enumerate | ir.IgnoreErrors | ir.Options | ir.ThreadPool
)  # fmt: skip
BYTES_BESIDE = {"tfrecord": 16, "text": 1, "fixed_length": 0}
"""The bytes a file has beside each record, by kind: length and two checksums of a TFRecord, the end of a line."""

# The counted elements of a stage, or the reason why they could not be counted. It is a text, since an error would keep
# what its traceback holds, such as samples.
_COUNTED: WeakKeyDictionary[ir.Node, int | str] = WeakKeyDictionary()


def most_known(node: ir.Node) -> float:
    """Return the most elements a pipeline has, as far as TensorFlow knows without running it; infinity if unknown.

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

    Elements of files are counted in as many whole files as a second allows; the other files are assumed to have as many
    per byte. If a second is too short for one file, elements are assumed to be as long as the first ones, if the files
    are not compressed, and rows of CSV files to be no more than the lines. The elements that other functions make of
    one element are counted too; for the rest, the mean plus two standard errors is assumed.

    Raises:
        MeasurementError: if the pipeline is endless, or its elements cannot be counted without reading everything.
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
    """Return the most elements of the side that has the fewest, among the sides whose number is known."""
    counted: list[int] = []
    for part in parts:
        with suppress(MeasurementError):
            counted.append(most_elements(part))
    if not counted:
        raise MeasurementError("no side of a zip has a number of elements that is known before they are read")
    return min(counted)


def _batch_of_rows(node: ir.Unbatch) -> ir.Batch | None:
    """Return the batch whose rows an unbatch gives, each perhaps mapped; ``None`` if the rows may be mixed."""
    below = node.input
    while isinstance(below, ir.Map) and who_mixes_rows(below.fn) is None:
        below = below.input
    return below if isinstance(below, ir.Batch) else None


def examples_in_batch(node: ir.Node) -> int | None:
    """Return how many examples an element of a pipeline holds; ``None`` if it is not a batch.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9)
    >>> [examples_in_batch(extract(each)) for each in (numbers.batch(4).prefetch(2), numbers.batch(4).unbatch())]
    [4, None]
    """
    batches = trees.past(node, _AFTER_BATCHES)
    return batches.batch_size if isinstance(batches, ir.Batching | ir.Rebatch) else None


def _once(count: Callable[[Any], int], node: ir.Node) -> int:
    """Return the number of elements, which is counted only once."""
    # Looked up only once: an equal node of another thread may be gone meanwhile.
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
        raise MeasurementError(f"counting its elements takes longer than {_COUNTING_SECONDS:g} s")
    return elements


def _elements_of_each(node: ir.Flattening) -> int:
    """Return how many elements a stage makes of the elements of its input."""
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
        raise MeasurementError(f"counting what is made of one element takes longer than {_COUNTING_SECONDS:g} s")
    error = statistics.stdev(made) / len(made) ** 0.5 if len(made) > 1 else 0.0
    return math.ceil((statistics.mean(made) + (2 * error if len(made) < inputs else 0.0)) * inputs)


def _elements_of_groups(node: ir.GroupByWindow) -> int:
    """Return how many elements a stage makes of the groups of its input, estimated from some of them."""
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
    """Return about ``count`` elements of a pipeline, from several places if that costs nothing."""
    places = from_several_places(node, count)
    parts: list[ir.Node] = [ir.Take(input=each, count=-(-count // len(places))) for each in places]
    return reduce(lambda first, second: ir.Concatenate(first=first, second=second), parts)


def _elements_of_files(reader: ir.FilesReader | ir.Flattening) -> int:
    """Return how many elements a stage makes of the files that its input names."""
    names = _names(reader.input)
    if not names and not isinstance(reader, ir.FilesReader):
        # The elements are not file names, but describe files in their own way, as in TensorFlow Datasets.
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
    """Return the size in bytes of the files that the input of a stage names; 0 if it names none."""
    (named,) = reader.inputs
    names = _names(named)
    return _sizes(names)[1] if names else 0.0


def _names(node: ir.Node) -> list[bytes]:
    """Return the names that a pipeline gives; empty if its elements are not single strings."""
    spec = signature(node).element_spec
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string or spec.shape.rank != 0:
        return []
    batches = build(writing_none(node)).take(_MOST_FILES).batch(_MOST_AT_ONCE).as_numpy_iterator()
    return list(chain.from_iterable(batches))


def _sizes(names: list[bytes]) -> tuple[dict[bytes, int], float]:
    """Return the sizes of as many files as a second allows, and the size of all, assuming the others to be as large."""
    sizes: dict[bytes, int] = {}
    asked, total = 0, 0.0
    end = time.perf_counter() + _COUNTING_SECONDS
    # Mixed, since files may be sorted by size.
    for name in _mixed(names):
        asked += 1
        # For a missing file whose name is not UTF-8, TensorFlow's error cannot be decoded.
        with suppress(tf.errors.NotFoundError, UnicodeDecodeError):
            sizes[name] = tf.io.gfile.stat(name).length
            total += sizes[name]
        if time.perf_counter() > end:
            break
    return sizes, total * len(names) / max(asked, 1)


def _count_files(reader: ir.FilesReader | ir.Flattening, sizes: dict[bytes, int]) -> tuple[int, int]:
    """Return how many elements the files that can be counted in a second have, and the bytes of these files.

    The smallest comes first, since at least one has to be counted. More and more are read at once: making a pipeline
    for them takes milliseconds.
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


def _works_inside(reader: ir.FilesReader | ir.Flattening) -> bool:
    """Return whether the function of a reader processes elements; parsed rows are counted by their lines."""
    return not _are_lines(reader) and any(map(inner_work, trees.called_by(reader)))


def _mixed(names: list[bytes]) -> list[bytes]:
    return random.Random(0).sample(names, len(names))


def _are_lines(reader: ir.FilesReader | ir.Flattening) -> bool:
    """Return whether files have no more elements than lines."""
    if isinstance(reader, ir.FilesReader):
        return reader.csv is not None and not reader.compression_type
    return has_a_line_for_each_row(reader.fn)


def _lines(names: list[bytes], size: float) -> int:
    """Return how many lines files have: counted for a second, and as many per byte in the rest.

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
    """Return the least bytes that an element takes in its file: the mean of the first, less two standard errors."""
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
    """Return the number of elements; ``None`` if the time is up before. The first ``few`` are always counted."""
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
