"""Whether a function can fail on an element, read from its graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import called_graphs, constant

__all__ = ["may_fail", "ops_that_may_fail", "types_that_may_fail"]

# Ops that give a result for all values of their operands.
_NEVER_FAIL = frozenset(
    "Abs AsString Cast Ceil Const Cos Exp Floor Identity IdentityN IsFinite IsInf IsNan Log Log1p LogicalNot Neg NoOp "
    "OnesLike Placeholder PlaceholderWithDefault Rank Relu Round Rsqrt Shape Sigmoid Sign Sin Size Softmax Sqrt Square "
    "StringLength StringLower StringStrip StringUpper Tan Tanh Where ZerosLike _Arg _Retval".split()
)
# Ops that fail only when their operands do not fit together.
_FAIL_BY_OPERANDS = frozenset(
    "Add AddV2 BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr Maximum "
    "Minimum Mul NotEqual RealDiv SelectV2 SquaredDifference Sub".split()
)
# Ops that fail for whole numbers divided by 0; the smallest divided by -1 overflows.
_DIVISIONS = frozenset("Div FloorDiv FloorMod Mod TruncateDiv TruncateMod".split())
# Ops that fail only when shapes do not fit, which tracing has checked if all shapes are known.
_FAIL_BY_SHAPE = frozenset(
    "ArgMax ArgMin BroadcastTo ConcatV2 ExpandDims Fill MatMul Mean OneHot Pack Pad PadV2 RandomStandardNormal "
    "RandomUniform RandomUniformInt Range Reshape ReverseV2 Select Slice Split SplitV Squeeze "
    "StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2 StridedSlice Tile Transpose "
    "Unpack".split()
)
# Ops that give a result for any sizes, including 0, if they reduce axes that exist.
_REDUCTIONS = frozenset("All Any Max Min Prod Sum".split())
# The operands of those that decide positions and sizes, if these are not all except the first.
_FIRST, _LAST, _ALL, _NONE = slice(1), slice(-1, None), slice(None), slice(0)
_PLACES = {
    "ConcatV2": _LAST,
    "Fill": _FIRST,
    "MatMul": _NONE,
    "Pack": _NONE,
    "RandomStandardNormal": _FIRST,
    "RandomUniform": _FIRST,
    "RandomUniformInt": _ALL,
    "Range": _ALL,
    "Select": _NONE,
    "Split": _FIRST,
    "StatelessRandomNormalV2": _FIRST,
    "StatelessRandomUniformV2": _FIRST,
}
_CALLS = frozenset("Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf".split())


@remembered
def may_fail(fn: Function) -> str | None:
    """Return the type of an op that could fail on some element; ``None`` if the function always gives a result.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> may_fail(extract(tf.data.Dataset.range(3).map(lambda x: x % 2 + 1)).fn) is None
    True
    >>> may_fail(extract(tf.data.Dataset.range(3).map(lambda x: 6 // x)).fn)
    'FloorDiv'
    """
    return _failing_op(fn.concrete.graph)


def ops_that_may_fail(fn: Function) -> set[Any]:
    """Return the ops of a function that could fail on some element, or that call a function which could."""
    graph = fn.concrete.graph
    return {op for op in graph.get_operations() if _failing(graph, op)}


@remembered
def types_that_may_fail(fn: Function) -> tuple[str, ...]:
    """Return the types of the ops that could fail on some element, those of called functions too; one for each op.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> types_that_may_fail(extract(tf.data.Dataset.range(3).map(lambda x: 6 // x + 8 // x)).fn)
    ('FloorDiv', 'FloorDiv')
    """
    return tuple(_failing_types(fn.concrete.graph))


def _failing_types(graph: Any) -> Iterator[str]:
    for op in graph.get_operations():
        called = called_graphs(graph, op) if op.type in _CALLS else []
        if called and None not in called:
            for body in called:
                yield from _failing_types(body)
        elif culprit := _failing(graph, op):
            yield culprit


def _failing_op(graph: Any) -> str | None:
    culprits = (_failing(graph, op) for op in graph.get_operations())
    return next(filter(None, culprits), None)


def _failing_inside(graph: Any, call: Any) -> str | None:
    """Return the type of an op that could fail in the functions an op calls, or of the op if they are unknown."""
    culprits = (str(call.type) if body is None else _failing_op(body) for body in called_graphs(graph, call))
    return next(filter(None, culprits), None)


def _failing(graph: Any, op: Any) -> str | None:
    if op.type in _CALLS:
        return _failing_inside(graph, op)
    return None if _never_fails(op) else str(op.type)


def _never_fails(op: Any) -> bool:
    if op.type in _FAIL_BY_OPERANDS:
        return _fit_together(op.inputs)
    if op.type in _DIVISIONS:
        return _fit_together(op.inputs) and _divides(op.inputs[1])
    if op.type == "GatherV2":
        return _finds_all(op)
    if op.type in _REDUCTIONS:
        return _reduces_axes_that_are_there(op)
    if op.type == "Reshape" and _has_whole_parts(op):
        return True
    return op.type in _NEVER_FAIL or (op.type in _FAIL_BY_SHAPE and _is_settled(op))


def _fit_together(tensors: Iterable[Any]) -> bool:
    """Return whether tensors broadcast, whatever their unknown sizes are."""
    shapes = [shape for shape in {id(tensor): tensor.shape for tensor in tensors}.values() if shape.rank != 0]
    if len(shapes) < 2:
        return True
    if any(shape.rank is None for shape in shapes):
        return False
    for sizes in zip_longest(*(reversed(shape.as_list()) for shape in shapes), fillvalue=1):
        long = [size for size in sizes if size != 1]
        if len(long) > 1 and None in long:
            return False
    return True


def _divides(divisor: Any) -> bool:
    """Return whether a division by this divisor never fails."""
    value = constant(divisor)
    return divisor.dtype.is_floating or (value is not None and not ((value == 0) | (value == -1)).any())


def _finds_all(gather: Any) -> bool:
    """Return whether the indices of a gather are constant and within bounds."""
    params, indices, axis = gather.inputs
    places, along = constant(indices), constant(axis)
    if places is None or along is None or params.shape.rank is None or gather.get_attr("batch_dims"):
        return False
    size = params.shape[int(along)]
    return size is not None and bool(((places >= 0) & (places < size)).all())


def _has_whole_parts(reshape: Any) -> bool:
    """Return whether a reshape fits, whatever the size of the first axis."""
    given, new = reshape.inputs[0].shape[1:] if reshape.inputs[0].shape.rank else None, constant(reshape.inputs[1])
    if given is None or new is None or not given.is_fully_defined() or (new < 0).sum() != 1:
        return False
    whole = int(new[new >= 0].prod())
    return bool(whole and given.num_elements() % whole == 0)


def _reduces_axes_that_are_there(op: Any) -> bool:
    reduced, axes = op.inputs
    rank, along = reduced.shape.rank, constant(axes)
    if rank is None or along is None:
        return False
    return all(-rank <= axis < rank for axis in along.flat) and len({axis % rank for axis in along.flat}) == along.size


def _is_settled(op: Any) -> bool:
    """Return whether all shapes are known and the numbers that decide positions and sizes are constant.

    Tracing has then checked them.
    """
    if not all(tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs)):
        return False
    return all(tensor.op.type == "Const" for tensor in _places(op) if tensor.dtype.is_integer)


def _places(op: Any) -> Sequence[Any]:
    return tuple(op.inputs)[_PLACES.get(op.type, slice(1, None))]
