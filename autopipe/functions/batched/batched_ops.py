"""Batched forms of ops for which ``tf.vectorized_map`` has none.

TensorFlow's converter uses the ``pfor_converter`` attribute of an op, if it has one, before its registry, so TensorFlow
itself is not changed. Each form calls the same kernel once for the batch: the kernel treats the values of a tensor, or
the images of a batch, one by one.

A private attribute of TensorFlow is read here, ``pfor._pfor_converter_registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.ranges import known_length
from autopipe.functions.subgraph import constant

__all__ = ["BATCHED_OPS", "add_batched_form", "is_batched_wrongly", "op_has_batched_form"]

_ONE_BY_ONE = (
    "AsString DecodeBase64 EncodeBase64 RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace "
    "StringLength StringLower StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong "
    "StringToNumber StringUpper Substr UnicodeTranscode"
).split()
_IMAGE_BY_IMAGE = (
    "ExtractImagePatches ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate".split()
)

# TensorFlow's converter ignores the default branch, formats one text for the whole batch, and reads segments or rows
# that an element does not have, which is an error, from the next element.
_BATCHED_WRONGLY = frozenset(
    "Case SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtN "
    "SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad "
    "SparseSegmentSumWithNumSegments StatelessCase StringFormat "
    "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum".split()
)

# Their converter pads elements that are shorter than others, unknown to the ops that follow.
_FILLED_UP = frozenset("ParseExampleV2 ParseSingleExample".split())

# Their converter makes a loop over the batch.
_LOOPING = frozenset(
    "StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2 "
    "StatelessRandomNormal StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt "
    "StatelessRandomUniformInt StatelessTruncatedNormal".split()
)


def add_batched_form(op: Any) -> None:
    """Give an op that is being traced its batched form, if this module has one for it."""
    if op.type in _FORMS:
        op.pfor_converter = _FORMS[op.type]


def op_has_batched_form(op_type: str) -> bool:
    """Return whether an op of that type has a batched form, in this module or in TensorFlow."""
    from tensorflow.python.ops.parallel_for import pfor

    registered = op_type in pfor._pfor_converter_registry and op_type not in _BATCHED_WRONGLY | _LOOPING
    return registered or op_type in _FORMS


def is_batched_wrongly(op: Any, *, in_call: bool) -> bool:
    """Return whether TensorFlow's converter gives an op another result than element by element, or makes a loop.

    - It pads with 0, whatever the padding value.
    - It counts a negative axis of a roll or a transpose from the wrong end.
    - It slices all elements to the largest remaining size if a slice takes the rest.
    - It drops the ``na_value`` of CSV lines, the truncation of casts, and the policy for indices out of bounds.
    - It parses examples correctly only where :mod:`~autopipe.functions.batched.parse` does.
    - ``in_call`` means that the op is inside a called function, such as a branch. No form of this module is used there,
      and a branch may get no elements at all: then products, slices and gathers of unknown size fail.
    """
    match op.type:
        case "Cast":
            return bool(op.get_attr("Truncate"))
        case "DecodeCSV":
            return bool(op.get_attr("na_value"))
        case "Diag":
            return bool(op.inputs[0].shape.rank != 1)
        case "DiagPart":
            return bool(op.inputs[0].shape.rank != 2)
        case "MatMul" | "Select":
            return in_call
        case "PadV2":
            filling = constant(op.inputs[2])
            return filling is None or bool(filling != 0)
        case "Roll" | "Transpose" | "ConjugateTranspose":
            axis = constant(op.inputs[-1])
            return axis is None or bool((axis < 0).any())
        case "Slice":
            begin, size = map(constant, op.inputs[1:])
            return begin is None and (in_call or size is None or bool((size < 0).any()))
        case "Squeeze":
            return in_call and not op.get_attr("squeeze_dims")
        case "GatherNd" | "TensorScatterUpdate":
            # The oldest TensorFlow that autopipe runs on need not have it.
            return op.node_def.attr["bad_indices_policy"].s not in (b"", b"DEFAULT")
    return op.type in _BATCHED_WRONGLY | _LOOPING | _FILLED_UP


def _one_by_one(call: Any) -> Any:
    """Convert an op that treats every value of its first operand alike."""
    others = [call.unstacked_input(index) for index in range(1, call.num_inputs)]
    return _stacked(_same_op(call, [call.stacked_input(0), *others]))


def _lookup(call: Any) -> Any:
    """Convert a lookup of keys in one table."""
    return _stacked(_same_op(call, [call.unstacked_input(0), call.stacked_input(1), call.unstacked_input(2)]))


def _string_join(call: Any) -> Any:
    """Convert the joining of strings; a string that is the same for all elements must be a scalar, to be broadcast."""
    for each in call.inputs:
        if not each.is_stacked and each.t.shape.rank != 0:
            raise ValueError("No pfor vectorization defined for StringJoin with a constant array")
    return _stacked(_same_op(call, [each.t for each in call.inputs]))


def _image_by_image(call: Any) -> Any:
    """Convert an op on a batch of images to one on the images of all batches."""
    images = call.stacked_input(0)
    others = [call.unstacked_input(index) for index in range(1, call.num_inputs)]
    outer = tf.shape(images)[:2]
    (made,) = _same_op(call, [tf.reshape(images, tf.concat([[-1], tf.shape(images)[2:]], 0)), *others])
    return _stacked([tf.reshape(made, tf.concat([outer, tf.shape(made)[1:]], 0))])


def _mirror_pad(call: Any) -> Any:
    """Convert the padding of an array with what is next to its border."""
    padding = call.unstacked_input(1)
    return _stacked(_same_op(call, [call.stacked_input(0), tf.concat([tf.zeros([1, 2], padding.dtype), padding], 0)]))


def _squeeze(call: Any) -> Any:
    """Convert the dropping of sides of 1. If none is named, TensorFlow's form also drops a batch dimension of 1."""
    sides = call.op.inputs[0].shape
    dropped = call.get_attr("squeeze_dims") or [at for at, side in enumerate(sides) if side == 1]
    if not call.get_attr("squeeze_dims") and not sides.is_fully_defined():
        raise ValueError("No pfor vectorization defined for Squeeze of an unknown shape")
    return _stacked([tf.squeeze(call.stacked_input(0), [at + 1 if at >= 0 else at for at in dropped])])


def _strided_slice(call: Any) -> Any:
    """Convert the slicing of an array; if all elements share the array, each may take its own row."""
    from tensorflow.python.ops.parallel_for import pfor

    if not call.input(1).is_stacked and not call.input(2).is_stacked:
        return pfor._pfor_converter_registry["StridedSlice"](call)
    others = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
    if call.get_attr("shrink_axis_mask") != 1 or any(map(call.get_attr, others)) or call.op.inputs[1].shape != [1]:
        raise ValueError("No pfor vectorization defined for StridedSlice of changing bounds")
    rows, places = call.unstacked_input(0), call.stacked_input(1)[:, 0]
    count = tf.shape(rows, places.dtype)[0]
    return _stacked([tf.gather(rows, tf.where(places < 0, places + count, places))])


def _range(call: Any) -> Any:
    """Convert a range with a different start for each element, but the same length for all."""
    length = known_length(call.op)
    if length is None:
        raise ValueError("No pfor vectorization defined for Range of changing length")
    start, step = call.stacked_input(0), call.unstacked_input(2)
    return _stacked([start[:, tf.newaxis] + tf.range(length, dtype=start.dtype) * step])


def _same_op(call: Any, inputs: list[Any]) -> list[Any]:
    op = call.op
    attributes = dict(op.node_def.attr)
    graph = tf.compat.v1.get_default_graph()
    types = [tensor.dtype for tensor in op.outputs]
    return list(graph.create_op(op.type, inputs, types, attrs=attributes, op_def=op.op_def).outputs)


def _stacked(tensors: list[Any]) -> list[Any]:
    from tensorflow.python.ops.parallel_for.pfor import wrap

    return [wrap(tensor, True) for tensor in tensors]


_FORMS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_ONE_BY_ONE, _one_by_one),
    **dict.fromkeys(_IMAGE_BY_IMAGE, _image_by_image),
    "LookupTableFindV2": _lookup,
    "MirrorPad": _mirror_pad,
    "Range": _range,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "StringJoin": _string_join,
}
BATCHED_OPS = frozenset(_FORMS)
