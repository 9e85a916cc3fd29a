"""Functions of elements -> functions of elements that have numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.file_ops import READERS
from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import called_graphs, specs, trace, with_called

__all__ = ["ELEMENTS_OF_FILE", "behind_number", "numbering_elements", "opens_one_file", "reads_in_order"]

ELEMENTS_OF_FILE = 2**32
"""More than a file has elements."""

# Datasets that give one element after the other, whatever the options.
_ORDERED_DATASETS = READERS | frozenset(
    "ConcatenateDataset FlatMapDataset RangeDataset RepeatDataset ShardDataset SkipDataset TakeDataset TensorDataset "
    "TensorSliceDataset".split()
)


@remembered
def behind_number(fn: Function) -> Function:
    """Return the function that ignores the number of an element and does the same as ``fn``.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> even = behind_number(extract(tf.data.Dataset.range(9).filter(lambda x: x % 2 == 0)).predicate).concrete
    >>> bool(even(tf.constant(7, tf.int64), tf.constant(4, tf.int64))[0])
    True
    """
    number = tf.TensorSpec((), tf.int64)
    return trace(
        lambda _, *element: run_whole(fn, element),
        (number, *specs(fn.element_inputs)),
        fn,
        name=fn.name,
        input_spec=(number, fn.input_spec),
        output_spec=fn.output_spec,
    )


@remembered
def reads_in_order(fn: Function) -> bool:
    """Return whether a function makes datasets that give the same elements in the same order whenever they are read.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> numbers = tf.data.Dataset.range(3)
    >>> in_order = function_of(numbers.flat_map(tf.data.Dataset.range))
    >>> shuffled = function_of(numbers.flat_map(lambda x: tf.data.Dataset.range(x).shuffle(2)))
    >>> reads_in_order(in_order), reads_in_order(shuffled)
    (True, False)
    """
    made = (op.op for op in with_called(fn.concrete.graph.as_graph_def()) if "Dataset" in op.op)
    return replace(effects(fn), file_reads=()).steady and all(kind in _ORDERED_DATASETS for kind in made)


@remembered
def opens_one_file(fn: Function) -> bool:
    """Return whether a function reads of no more than one file for each element, as far as its graph tells.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> names = tf.data.Dataset.from_tensor_slices(["a", "b"])
    >>> opened = tf.data.TextLineDataset, lambda name: tf.data.TextLineDataset([name, name + "x"])
    >>> [opens_one_file(function_of(names.flat_map(each))) for each in opened]
    [True, False]
    """
    graph = fn.concrete.graph
    inside = [node.op for node in with_called(graph.as_graph_def())]
    top = graph.get_operations()
    named: set[int] = set()
    for op in top:
        if op.type in READERS:
            names = op.inputs[0]
        elif op.type == "FlatMapDataset" and _reads_what_it_is_given(graph, op) and _is_a_row(op.inputs[0].op):
            (names,) = op.inputs[0].op.inputs
        else:
            continue
        if names.shape.num_elements() != 1:
            return False
        named.add(id(_one_of(names)))
    # A read in the function itself fails as a whole. All other reads must be among those found.
    reading = [kind for kind in inside if kind in READERS or kind == "ReadFile"]
    found = [op for op in top if op.type in ("ReadFile", *READERS) or _reads_what_it_is_given(graph, op)]
    return len(reading) == len(found) and len(named) <= 1


def _reads_what_it_is_given(graph: Any, op: Any) -> bool:
    """Return whether an op reads one file for each name that it is given, and does nothing else."""
    body = called_graphs(graph, op)[0] if op.type == "FlatMapDataset" else None
    readers = [each for each in body.get_operations() if each.type in READERS] if body is not None else []
    others = [node.op for node in with_called(body.as_graph_def())] if body is not None else []
    if len(readers) != 1 or sum(kind in READERS or kind == "ReadFile" or "Dataset" in kind for kind in others) != 1:
        return False
    return bool(_one_of(readers[0].inputs[0]).op.type == "Placeholder")


def _is_a_row(source: Any) -> bool:
    return bool(source.type == "TensorSliceDataset" and len(source.inputs) == 1)


def _one_of(names: Any) -> Any:
    """Return the only name in a vector, as it was before it was put there."""
    while names.op.type in ("ExpandDims", "Identity", "Reshape") and names.op.inputs[0].shape.num_elements() == 1:
        names = names.op.inputs[0]
    return names


@remembered
def numbering_elements(fn: Function) -> Function:
    """Return the function that takes a file with its number, and opens it as ``fn`` does, with numbered elements.

    Their numbers begin at :data:`ELEMENTS_OF_FILE` times that of the file.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> opened = numbering_elements(function_of(tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)))
    >>> opened.output_spec.element_spec
    (TensorSpec(shape=(), dtype=tf.int64, name=None), TensorSpec(shape=(), dtype=tf.int64, name=None))
    """
    number = tf.TensorSpec((), tf.int64)
    element = fn.output_spec.element_spec

    def opened(file_number: Any, *file: Any) -> list[Any]:
        (variant,) = run_whole(fn, file)
        numbers = tf.data.Dataset.range(file_number * ELEMENTS_OF_FILE, tf.int64.max)
        both = tf.data.Dataset.zip((numbers, tf.data.experimental.from_variant(variant, element)))
        return [tf.data.experimental.to_variant(both)]

    traced = trace(
        opened,
        (number, *specs(fn.element_inputs)),
        fn,
        name=fn.name,
        input_spec=(number, fn.input_spec),
        output_spec=tf.data.DatasetSpec((number, element)),
    )
    types, shapes = (tf.int64, *fn.element_types), (tf.TensorShape(()), *fn.element_shapes)
    return replace(traced, element_types=types, element_shapes=shapes)
