"""Samples of the user's elements, and the bytes they take.

A sample is taken without the shuffles, caches, repeats and prefetches on the way: they change neither an element nor
its cost, but filling a shuffle buffer or half a cache file for a sample would cost a lot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.errors import DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import one_line
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.measuring.nothing_passes import ending_in_time
from autopipe.rules import MeasurementError
from autopipe.sentences import one_sentence

__all__ = [
    "SAMPLE_BYTES",
    "SAMPLE_SECONDS",
    "bytes_of",
    "from_several_places",
    "held_beside",
    "of_one_shape",
    "take_sample",
    "with_calls",
    "without_buffers",
    "without_calls",
]

SAMPLE_SECONDS = 1.0
# A sample that has this many elements already is not worth more time than this.
_SOME = 32
_SECONDS_FOR_MORE = 0.25
SAMPLE_BYTES = 16 * 2**20
# The bytes that a string takes beside its characters.
_STRING_BYTES = 24
# The resident memory that TensorFlow's memory cache takes beside the bytes of the tensors: each tensor is aligned to 64
# bytes, and equal tensors differ by 10%, depending on the free memory around them.
_HELD_BESIDE_ELEMENT = 45
_HELD_BESIDE_COMPONENT = 155
# Elements this large, and elements that differ in size, took 4 to 13% more with either allocator: freed memory does not
# fit the next ones.
_LARGE_ELEMENT = 256 * 1024
_HELD_BESIDE_LARGE = 0.1


def take_sample(node: ir.Node, count: int) -> list[Any]:
    """Return the first elements of a pipeline; those whose function raises are skipped.

    Raises:
        MeasurementError: if running it could be noticed, or it gives no element in time.
        DatasetError: if every element that was tried raises.
    """
    witness = who_would_see(node, draws_count=False)
    if witness:
        raise MeasurementError(f"a run on a sample could be noticed, since {witness}")
    elements: list[Any] = []
    failure: tf.errors.OpError | None = None
    attempts = 0
    held = 0
    (tried,) = ending_in_time([without_buffers(node)], SAMPLE_SECONDS)
    iterator = iter(build(tried))
    # Timed from here: the first iterator over arrays of gigabytes takes seconds to make.
    began = time.perf_counter()
    while attempts < count and held < SAMPLE_BYTES and _is_worth_more(attempts, time.perf_counter() - began):
        attempts += 1
        try:
            elements.append(next(iterator))
            held += bytes_of(elements[-1])
        except StopIteration:
            break
        except tf.errors.OpError as error:
            failure = error
    if elements:
        return elements
    if failure is not None:
        raise DatasetError(
            "Some elements must pass through the pipeline, "
            f"but every one tried in {one_line(node)} raised: {one_sentence(failure)} "
            "Fix the function or its input; single bad elements can be left out with ignore_errors()."
        ) from failure
    raise MeasurementError("the pipeline has no elements")


def _is_worth_more(attempts: int, taken: float) -> bool:
    return not attempts or taken < (SAMPLE_SECONDS if attempts < _SOME else _SECONDS_FOR_MORE)


def of_one_shape(elements: Sequence[Any]) -> list[Any]:
    """Return the elements of the most common shape: the last batch of a sample is often a smaller one.

    Raises:
        MeasurementError: if they are not made of tensors.
    """
    shapes = [tuple(tuple(part.shape) for part in _tensors(tf.nest.flatten(element))) for element in elements]
    common = max(set(shapes), key=shapes.count)
    return [element for element, shape in zip(elements, shapes, strict=True) if shape == common]


def without_buffers(node: ir.Node) -> ir.Node:
    """Return the pipeline without the stages that hold, store, repeat or count elements.

    A repeat of a single element stays, as in ``Dataset.counter()``: nothing could be zipped with it otherwise.
    """
    if isinstance(node, ir.Opaque) and node.inside is not None:
        return without_buffers(node.inside)
    inputs = [without_buffers(child) for child in node.inputs]
    if isinstance(node, ir.Repeat) and isinstance(inputs[0], ir.Tensors):
        return node.on(*inputs)
    if isinstance(node, ir.Shuffle | ir.Cache | ir.Repeat | ir.Prefetch | ir.AssertCardinality):
        return inputs[0]
    return node.on(*inputs)


def without_calls(node: ir.Node) -> ir.Node:
    """Return the pipeline with only what decides its elements: without buffers and parallel calls."""
    return with_calls(without_buffers(node), None)


def with_calls(node: ir.Node, calls: int | None) -> ir.Node:
    """Return the pipeline with this many calls at once wherever calls are parallel; its elements are the same."""

    def changed(each: ir.Node) -> ir.Node:
        if isinstance(each, ir.Mapping | ir.Batch) and each.num_parallel_calls is not None:
            return replace(each, num_parallel_calls=calls)
        return each

    return trees.transform(node, changed)


def from_several_places(node: ir.Node, count: int) -> list[ir.Node]:
    """Return pipelines that start at the beginning, middle and end of one, for a third of ``count`` elements each.

    Elements may be sorted, by their length say. If a place can only be reached by making all elements before it, only
    the pipeline itself is returned.
    """
    source = whole = without_buffers(node)
    rows = 1
    while isinstance(source, ir.Map | ir.Batching):
        rows *= getattr(source, "batch_size", 1)
        source = source.inputs[0]
    places = 3
    each = -(-count // places) * rows
    elements = signature(source).cardinality
    if not isinstance(source, ir.Range | ir.TensorSlices) or elements <= places * each:
        return [whole]
    starts = (0, elements // 2, elements - each)
    return [trees.substitute(whole, source, ir.Skip(input=source, count=start)) for start in starts]


def bytes_of(element: Any) -> int:
    """Return the bytes an element takes in memory; strings count their characters.

    Raises:
        MeasurementError: if it is not made of tensors: the size of a dataset in it is unknown.
    """
    total = 0
    for tensor in _tensors(tf.nest.flatten(element, expand_composites=True)):
        if tensor.dtype == tf.string:
            strings = np.asarray(tensor.numpy(), dtype=object).ravel()
            total += sum(map(len, strings)) + _STRING_BYTES * strings.size
        else:
            total += tensor.dtype.size * tensor.shape.num_elements()
    return total


def _tensors(parts: Sequence[Any]) -> list[Any]:
    """Return the parts that take memory, without those that are None."""
    held = [part for part in parts if part is not None]
    for part in held:
        if not tf.is_tensor(part) or part.dtype == tf.variant:
            raise MeasurementError(f"its elements hold {type(part).__name__.strip('_')}, which is not a plain tensor")
    return held


def held_beside(spec: Any, mean_bytes: float, *, differ: bool) -> float:
    """Return the bytes that a memory cache takes for each element beside those of its tensors.

    Args:
        spec: the type of the elements.
        mean_bytes: the mean bytes of the tensors of an element.
        differ: whether elements differ in size.
    """
    components = len(tf.nest.flatten(spec, expand_composites=True))
    share = _HELD_BESIDE_LARGE if differ or mean_bytes >= _LARGE_ELEMENT else 0.0
    return _HELD_BESIDE_ELEMENT + _HELD_BESIDE_COMPONENT * components + share * mean_bytes
