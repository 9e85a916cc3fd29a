"""Arguments that TensorFlow's Python objects do not keep, read from the serialized graph of a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees

__all__ = ["HiddenArgumentError", "enumerate_start", "fixed_choices", "graph_of", "hidden_attribute"]

_LARGEST_GRAPH_BYTES = 64 * 2**20
_OP_OF_CHOICES = re.compile(r"\b(Range|Repeat|TensorSlice)DatasetOp\b")
# Larger choices are not read: reading makes a copy.
_MOST_BYTES_OF_CHOICES = 2**20


class HiddenArgumentError(Exception):
    """An argument that TensorFlow's Python object forgets could not be read from its graph."""


def graph_of(dataset: Any) -> Any:
    """Return the ``GraphDef`` of a dataset; this copies the tensors of its in-memory sources."""
    variant = tf.data.experimental.to_variant(dataset)
    serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=1)
    return tf.compat.v1.GraphDef.FromString(serialized.numpy())


def enumerate_start(pair: Any) -> int | None:
    """Return where ``Dataset.enumerate`` starts; ``None`` if a zip is not an ``enumerate``.

    ``enumerate`` zips the dataset with a range that it marks ``replicate_on_split``, and that Python sees only as
    a variant tensor; the graph of that small dataset has the number.
    """
    if not (isinstance(pair, tuple) and len(pair) == 2 and type(pair[0]).__name__ == "_VariantDataset"):
        return None
    try:
        nodes = {node.name: node for node in graph_of(pair[0]).node}
    except tf.errors.OpError:
        return None
    ranges = [node for node in nodes.values() if node.op == "RangeDataset"]
    if len(ranges) != 1 or not ranges[0].attr["replicate_on_split"].b:
        return None
    start, stop, step = (int(tf.make_ndarray(nodes[name].attr["value"].tensor)) for name in ranges[0].input)
    return start if (stop, step) == (tf.int64.max, 1) else None


def fixed_choices(variant: Any) -> ir.Node | None:
    """Return the choices of ``choose_from_datasets``; ``None`` unless they are a range or a list, perhaps repeated.

    It marks them ``replicate_on_split``, and hands them on as a variant tensor that Python cannot look into.
    """
    if not hasattr(variant, "_autopipe_choices"):
        # Kept, so that reading the pipeline again gives the same datasets, by which nodes are compared.
        variant._autopipe_choices = _read_choices(variant)
    choices: ir.Node | None = variant._autopipe_choices
    return choices


def _read_choices(variant: Any) -> ir.Node | None:
    # TensorFlow shows the last op of a variant tensor. Behind other ops may be all training data, which would be
    # copied.
    if not _OP_OF_CHOICES.search(repr(tf.data.experimental.to_variant(variant))):
        return None
    try:
        nodes = {node.name: node for node in graph_of(variant).node}
    except tf.errors.OpError:
        return None
    result = next((node for node in nodes.values() if node.op == "_Retval"), None)
    return None if result is None else _choices(nodes, result.input[0])


def _choices(nodes: Mapping[str, Any], name: str) -> ir.Node | None:
    node = nodes[name]
    if node.op == "RepeatDataset":
        repeated, (count,) = _choices(nodes, node.input[0]), _constants(nodes, node)
        return ir.Repeat(input=repeated, count=max(int(count), -1)) if repeated and count else None
    if node.op not in ("RangeDataset", "TensorSliceDataset") or not node.attr["replicate_on_split"].b:
        return None
    values = _constants(nodes, node)
    if sum(value.nbytes for value in values) > _MOST_BYTES_OF_CHOICES:
        return None
    if node.op == "RangeDataset":
        start, stop, step = map(int, values)
        variant = tf.raw_ops.RangeDataset(
            start=start, stop=stop, step=step, output_types=[tf.int64], output_shapes=[[]], replicate_on_split=True
        )
        return ir.Range(dataset=_numbers(variant), start=start, stop=stop, step=step)
    components = tuple(map(tf.constant, values))
    variant = tf.raw_ops.TensorSliceDataset(components=components, output_shapes=[[]], replicate_on_split=True)
    return ir.TensorSlices(dataset=_numbers(variant), components=components)


def _constants(nodes: Mapping[str, Any], node: Any) -> list[Any]:
    inputs = map(nodes.__getitem__, node.input)
    return [tf.make_ndarray(each.attr["value"].tensor) for each in inputs if each.op == "Const"]


def _numbers(variant: Any) -> Any:
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))


def hidden_attribute(dataset: Any, source: ir.Node, op_type: str, attribute: str, *functions: Function) -> Any:
    """Return an attribute of the last op of a dataset.

    Args:
        dataset: the live dataset.
        source: the tree it reads from, to find out how much would be copied.
        op_type: the type of its op, such as ``ParallelInterleaveDatasetV4``.
        attribute: the name of the attribute: one that holds a string or a boolean.
        functions: the functions that the dataset itself calls, whose captures are copied too.

    Raises:
        HiddenArgumentError: if reading it would copy too much, or TensorFlow cannot serialize the dataset.
    """
    upstream = list(trees.inputs_first(source))
    called = chain(functions, *map(trees.called_by, upstream))
    held = sum(map(_bytes_held, upstream)) + sum(map(_bytes_captured, called))
    if held > _LARGEST_GRAPH_BYTES:
        raise HiddenArgumentError(
            f"its {attribute} argument can only be read by copying {held / 2**20:,.0f} MiB of tensors, above the "
            f"{_LARGEST_GRAPH_BYTES / 2**20:.0f} MiB that are copied; put it after optimize(), or read these from files"
        )
    try:
        nodes = graph_of(dataset).node
    except tf.errors.OpError as refused:
        raise HiddenArgumentError(
            f"its {attribute} argument can only be read from its graph, and TensorFlow cannot serialize that "
            f"({refused.message}); put it after optimize()"
        ) from refused
    *_, last = (node for node in nodes if node.op == op_type)
    value = last.attr[attribute]
    return value.s.decode() if value.WhichOneof("value") == "s" else value.b


def _bytes_held(node: ir.Node) -> int:
    if not isinstance(node, ir.Tensors | ir.TensorSlices):
        return 0
    return sum(map(_bytes_of, node.components))


def _bytes_captured(fn: Function) -> int:
    """Return the bytes of the tensors that a function captures; other captures are not copied."""
    return sum(map(_bytes_of, fn.concrete.captured_inputs))


def _bytes_of(tensor: Any) -> int:
    return int(tensor.dtype.size * (tensor.shape.num_elements() or 0))
