"""``tf.io.parse_single_example`` on a batch: one call of the same op, whose results are batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.subgraph import copy_into_trace, needed_ops, origin

__all__ = ["parse_batch", "parsing_op", "ragged_parts", "sparse_parts"]


def parsing_op(fn: Function) -> Any | None:
    """Return the op that parses an input of the function, if there is exactly one."""
    ops = [op for op in fn.concrete.graph.get_operations() if op.type == "ParseExampleV2"]
    if len(ops) != 1 or ops[0].inputs[0].shape.rank != 0:
        return None
    settings = needed_ops(ops[0].inputs[1:])
    if any(tensor.op in settings for tensor in fn.element_inputs):
        # A default that comes with the element differs between elements.
        return None
    return ops[0] if _position(fn, ops[0]) is not None else None


def parse_batch(fn: Function, op: Any, batches: tuple[Any, ...]) -> list[Any]:
    """Parse the batch of serialized examples among the batched inputs; return the replacements of the op's outputs."""
    position = _position(fn, op)
    assert position is not None
    settings = copy_into_trace(fn.concrete.graph, list(op.inputs[1:]), {})
    attributes = dict(op.node_def.attr)
    types = [tensor.dtype for tensor in op.outputs]
    graph = tf.compat.v1.get_default_graph()
    return list(
        graph.create_op(op.type, [batches[position], *settings], types, attrs=attributes, op_def=op.op_def).outputs
    )


def sparse_parts(output: Any, op: Any) -> tuple[int, int, int] | None:
    """Return which outputs of the parsing op a sparse output of the function is made of: indices, values, shape."""
    serialize = _first_packing(output)
    if serialize.type != "SerializeSparse":
        return None
    positions = {id(tensor): index for index, tensor in enumerate(op.outputs)}
    indices, values, shape = (positions.get(id(origin(tensor))) for tensor in serialize.inputs)
    if indices is None or values is None or shape is None:
        return None
    return indices, values, shape


def _first_packing(output: Any) -> Any:
    """Return the op that made a sparse tensor one tensor, before functions unpacked it and packed it again."""
    pack = origin(output).op
    while pack.type == "SerializeSparse" and origin(pack.inputs[0]).op.type == "DeserializeSparse":
        unpack = origin(pack.inputs[0]).op
        if not all(origin(tensor) is part for tensor, part in zip(pack.inputs, unpack.outputs, strict=True)):
            break
        pack = origin(unpack.inputs[0]).op
    return pack


def ragged_parts(output: Any, op: Any) -> tuple[int, int] | None:
    """Return which outputs of the parsing op a batch of a ragged output of the function has: values, row splits.

    Alone, a ragged feature is a vector; ``ragged_batch`` encodes it so that vectors of many lengths make a batch.
    """
    encode = origin(output).op
    if encode.type != "RaggedTensorToVariant" or encode.get_attr("RAGGED_RANK"):
        return None
    features = len(op.get_attr("ragged_value_types"))
    first_splits = len(op.outputs) - features
    encoded = origin(encode.inputs[-1])
    place = next((place for place, tensor in enumerate(op.outputs) if tensor is encoded), None)
    if place is None:
        return None
    feature = place - (first_splits - features)
    return (place, first_splits + feature) if 0 <= feature < features else None


def _position(fn: Function, op: Any) -> int | None:
    serialized = origin(op.inputs[0])
    places = [place for place, tensor in enumerate(fn.element_inputs) if tensor is serialized]
    return places[0] if places else None
