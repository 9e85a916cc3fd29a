"""Whether a function gives the same bits in a batch as for each element alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.rounding import jumps_after
from autopipe.functions.batched.batched_ops import BATCHED_OPS
from autopipe.functions.cheaper.compiled import is_compiled
from autopipe.functions.function import Function
from autopipe.functions.regrouped import regrouped, regrouped_ops
from autopipe.functions.subgraph import constant, origin, with_called

__all__ = ["computes_exactly", "jumps_in_batch", "rounds_rows_alike"]

# Each element of the result depends on matching elements of the operands by one IEEE or integer operation, or by
# moving data: the same bits whether it is computed alone or in a batch. Transcendental functions are not here, since
# the vector code for them rounds differently from the scalar code. Denormal numbers, and the sign of a zero that is a
# maximum or a minimum, are ignored.
_EXACT = frozenset(
    "Abs Add AddV2 BitwiseAnd BitwiseOr BitwiseXor Cast Ceil ConcatV2 Const DecodeCSV DecodeRaw DeserializeSparse "
    "Equal ExpandDims Fill Floor FloorDiv FloorMod GatherV2 Greater GreaterEqual Identity IdentityN If Less "
    "LessEqual LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack "
    "ParseExampleV2 PartitionedCall Placeholder RaggedTensorToVariant RealDiv Relu Reshape ReverseV2 Select "
    "SelectV2 SerializeSparse Shape Sign Slice Split SplitV Sqrt Square Squeeze StatelessIf StridedSlice Sub Tile "
    "Transpose Unpack ZerosLike _Arg _Retval".split()
)
# For complex numbers, the vector code of these uses another algorithm.
_EXACT_OF_REALS = frozenset("Mul RealDiv Sign Sqrt Square".split())
# It does not round, but may handle NaN differently.
_CLIP = "ClipByValue"
_EXTREMES = frozenset({"Maximum", "Minimum"})


def computes_exactly(fn: Function) -> bool:
    """Return whether every op gives the same bits for an element alone and for an element in a batch."""
    if regrouped(fn.concrete.graph) or is_compiled(fn):
        return False
    nodes = with_called(fn.concrete.graph.as_graph_def())
    return all((_is_known(node) or node.op in BATCHED_OPS) and not _is_saturating(node) for node in nodes)


def rounds_rows_alike(fn: Function) -> bool:
    """Return whether a function of a batch gives the same bits for a row, whatever the number and position of rows.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> rows = tf.data.Dataset.from_tensor_slices([0.5, 1.5]).batch(2)
    >>> [rounds_rows_alike(function_of(rows.map(each))) for each in (tf.abs, tf.exp, tf.strings.as_string)]
    [True, False, True]
    """
    inexact = _inexact_ops(fn)
    made = (tensor.dtype for op in inexact for tensor in op.outputs)
    rounded = any(dtype.is_floating or dtype.is_complex for dtype in made)
    return not (rounded or is_compiled(fn) or any(_is_saturating(op.node_def) for op in inexact))


def jumps_in_batch(fn: Function) -> str | None:
    """Return the type of an op whose result may jump, and not only differ in its last bits, in a batch.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> floats = tf.data.Dataset.from_tensors([0.5])
    >>> fns = (tf.exp, lambda x: tf.round(tf.exp(x)), lambda x: tf.cast(x * 255, tf.uint8), tf.round)
    >>> [jumps_in_batch(extract(floats.map(each)).fn) for each in fns]
    [None, 'Round', 'Cast', None]
    """
    graph = fn.concrete.graph
    unclipped = (op for op in graph.get_operations() if _is_saturating(op.node_def) and not _is_clipped(op))
    return "Cast" if any(unclipped) else jumps_after(fn, _inexact_ops(fn))


def _inexact_ops(fn: Function) -> set[Any]:
    """Return the ops that may round differently in a batch, and those that call a function with such an op."""
    graph = fn.concrete.graph
    bodies = {function.signature.name: function for function in graph.as_graph_def().library.function}
    return {op for op in graph.get_operations() if not _is_exact(op.node_def, bodies)} | regrouped_ops(graph)


def _is_exact(node: Any, bodies: Mapping[str, Any]) -> bool:
    called = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
    inner = (each for name in called if name in bodies for each in bodies[name].node_def)
    known = _is_known(node) or node.op in BATCHED_OPS or node.op == _CLIP
    return known and not _is_saturating(node) and all(_is_exact(each, bodies) for each in inner)


def _is_known(node: Any) -> bool:
    return node.op in _EXACT and not (node.op in _EXACT_OF_REALS and tf.as_dtype(node.attr["T"].type).is_complex)


def _is_clipped(cast: Any) -> bool:
    """Return whether the operand of a cast was clipped to the range of the new type, as ``tf.saturate_cast`` does.

    NaN passes any bounds; only in the types named here does it become 0 both alone and in a batch.
    """
    limits = cast.outputs[0].dtype
    if limits not in (tf.uint8, tf.uint16):
        return False
    bounds = [constant(bound) for bound in _bounds(origin(cast.inputs[0]).op)]
    return bool(bounds) and all(
        bound is not None and ((bound >= limits.min) & (bound <= limits.max)).all() for bound in bounds
    )


def _bounds(op: Any) -> tuple[Any, ...]:
    """Return the bounds of the result of an op that clips, or the bound and operand of one half of a clip."""
    if op.type == _CLIP:
        return tuple(op.inputs)[1:]
    for inner, bound in (op.inputs, reversed(op.inputs)) if op.type in _EXTREMES else ():
        other = origin(inner).op
        if {op.type, other.type} == _EXTREMES:
            left, right = other.inputs
            return bound, left if left.op.type == "Const" else right
    return ()


def _is_saturating(node: Any) -> bool:
    """Return whether an op is a cast that saturates in vector code but wraps around in scalar code."""
    if node.op != "Cast":
        return False
    given, made = (tf.as_dtype(node.attr[side].type) for side in ("SrcT", "DstT"))
    return bool(
        (given.is_floating or given.is_complex) and made.is_integer and made not in (tf.int32, tf.int64, tf.uint64)
    )
