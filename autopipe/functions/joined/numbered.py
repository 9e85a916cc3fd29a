"""Functions of elements -> functions of elements that have numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.known.effects import effects
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import specs, trace, with_called

__all__ = ["ELEMENTS_OF_FILE", "behind_number", "numbering_elements", "opens_one_file", "reads_in_order"]

ELEMENTS_OF_FILE = 2**32
"""More than a file has elements."""

# Datasets that give one element after the other, whatever the options.
_IN_ORDER = frozenset(
    "CSVDatasetV2 ConcatenateDataset FixedLengthRecordDatasetV2 FlatMapDataset RangeDataset RepeatDataset ShardDataset "
    "SkipDataset TFRecordDataset TFRecordDatasetV2 TakeDataset TensorDataset TensorSliceDataset TextLineDataset".split()
)
# What names of files go into: readers of several are a flat_map over their names.
_NAMING = frozenset({"TensorSliceDataset"})


@remembered
def behind_number(fn: Function) -> Function:
    """Return the function that gives for an element with its number what ``fn`` gives for the element alone.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> even = behind_number(extract(tf.data.Dataset.range(9).filter(lambda x: x % 2 == 0)).predicate).concrete
    >>> bool(even(tf.constant(7, tf.int64), tf.constant(4, tf.int64))[0])
    True
    """
    import tensorflow as tf

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
    return replace(effects(fn), file_reads=()).steady and all(kind in _IN_ORDER for kind in made)


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
    if not effects(fn).file_reads:
        return True
    named: set[int] = set()
    for op in fn.concrete.graph.get_operations():
        if op.type == "FlatMapDataset" and op.inputs[0].op.type != "TensorSliceDataset":
            return False
        for names in op.inputs if op.type in _NAMING else ():
            if names.dtype.name == "string" and names.shape.num_elements() != 1:
                return False
            named.add(id(_one_of(names)))
    return len(named) == 1


def _one_of(names: Any) -> Any:
    """Return the one name there is among names, as it was before it was put into a row."""
    while names.op.type in ("ExpandDims", "Identity", "Reshape") and names.op.inputs[0].shape.num_elements() == 1:
        names = names.op.inputs[0]
    return names


@remembered
def numbering_elements(fn: Function) -> Function:
    """Return the function that opens, for a file with its number, what ``fn`` opens, with a number for each element.

    These begin at :data:`ELEMENTS_OF_FILE` times that of the file.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> opened = numbering_elements(function_of(tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)))
    >>> opened.output_spec.element_spec
    (TensorSpec(shape=(), dtype=tf.int64, name=None), TensorSpec(shape=(), dtype=tf.int64, name=None))
    """
    import tensorflow as tf

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
