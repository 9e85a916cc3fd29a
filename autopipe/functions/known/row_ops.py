"""What ops make of the rows of a batch.

A tensor that has the rows of a batch along its first axis still has them after an op that looks at one row at a time.
What is not named here is taken to mix them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

__all__ = ["ALIKE", "ROWS", "Flow", "flows_through"]


class _Kind(Enum):
    """What a tensor is to the rows of a batch."""

    ALIKE = auto()
    """The same for every batch."""
    NUMBER = auto()
    """The number of rows."""
    SHAPE = auto()
    """The number of rows, and then the same for every batch."""
    COUNT = auto()
    """The same for every batch of as many rows."""
    ROWS = auto()
    """Along its first axis, something of each row."""
    PIECES = auto()
    """Along its first axis, any number of pieces of each row, one row after the other."""
    OWNERS = auto()
    """The row of each piece."""
    PLACES = auto()
    """The row of each piece, and which of that row it is."""
    SIZES = auto()
    """The number of rows, and the most pieces of one."""


class Flow(NamedTuple):
    """What a tensor is, and the op that took rows apart if it is of their pieces."""

    kind: _Kind
    of: Any = None


ALIKE, ROWS = Flow(_Kind.ALIKE), Flow(_Kind.ROWS)
_NUMBER, _SHAPE, _COUNT = map(Flow, (_Kind.NUMBER, _Kind.SHAPE, _Kind.COUNT))

# Each value of the result comes from matching values of the operands.
_BY_VALUE = frozenset(
    "Abs Acos Acosh Add AddN AddV2 AsString Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseOr BitwiseXor Bucketize Cast "
    "Ceil ClipByValue Complex ComplexAbs Conj Cos Cosh DivNoNan Elu Equal Erf Erfc Exp Expm1 Floor FloorDiv FloorMod "
    "Greater GreaterEqual Identity Imag Invert IsFinite IsInf IsNan LeakyRelu LeftShift Less LessEqual Log Log1p "
    "LogicalAnd LogicalNot LogicalOr LookupTableFindV2 Maximum Minimum Mod Mul MulNoNan Neg NotEqual OnesLike Pow "
    "PreventGradient Real RealDiv Reciprocal RegexFullMatch RegexReplace Relu Relu6 RightShift Rint Round Rsqrt "
    "SelectV2 Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square SquaredDifference StaticRegexFullMatch "
    "StaticRegexReplace StopGradient StringJoin StringLength StringLower StringStrip StringToHashBucketFast "
    "StringToHashBucketStrong StringToNumber StringUpper Sub Substr Tan Tanh TruncateDiv TruncateMod Xdivy Xlogy "
    "ZerosLike".split()
)
_PASSING_ON = frozenset({"Cast", "Identity"})
# Each value comes from those along the last axis.
_ALONG_LAST_AXIS = frozenset(
    "AdjustHue AdjustSaturation FFT HSVToRGB IFFT IRFFT LogSoftmax RFFT RGBToHSV Softmax TopKV2".split()
)
# Each image comes from one image: (images, height, width, channels).
_BY_IMAGE = frozenset(
    "AdjustContrastv2 AvgPool BiasAdd Conv2D DepthwiseConv2dNative ExtractImagePatches MaxPool ResizeArea "
    "ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate".split()
)
# The second operand says which axes are worked along.
_ALONG_AXES = frozenset("All Any ArgMax ArgMin Cumprod Cumsum Max Mean Min Prod ReverseV2 Sum".split())
_RANK_OF_IMAGES = 4
# A shape, pieces, what to pad with, the number of rows, and the row of each piece.
_PARTS_OF_RAGGED = 5


def flows_through(op: Any, given: Sequence[Flow | None]) -> Sequence[Flow | None]:
    """Return what each result of an op is."""
    mixed = [None] * len(op.outputs)
    if op.op_def.is_stateful and op.type not in _BY_VALUE:
        return mixed
    if None in given:
        return [ALIKE] if _is_pinned(op) else mixed
    known = [flow for flow in given if flow is not None]
    if all(flow in (ALIKE, _NUMBER, _SHAPE, _COUNT) for flow in known):
        return [_of_count(op, known)] * len(op.outputs)
    match op.type:
        case "IdentityN":
            return known
        case "ParseExampleV2":
            return _parsed(op, known)
        case "StringSplitV2" if known[0] == ROWS and known[1] == ALIKE:
            return [Flow(_Kind.PLACES, op), Flow(_Kind.PIECES, op), Flow(_Kind.SIZES, op)]
        case "SparseCross" if _crosses_rows(op, known):
            return [Flow(_Kind.PLACES, op), Flow(_Kind.PIECES, op), Flow(_Kind.SIZES, op)]
    return [_flow(op, known)] * len(op.outputs)


def _of_count(op: Any, given: Sequence[Flow]) -> Flow:
    match op.type:
        case "Cast" | "Identity":
            return given[0]
        case "Fill" if given == [_SHAPE, ALIKE]:
            return ROWS
        case "Pack" if given[0] == _NUMBER and op.get_attr("axis") == 0:
            return _SHAPE if all(flow == ALIKE for flow in given[1:]) else _COUNT
        case "StridedSlice" if given[0] == _SHAPE:
            return _strided_slice(op, given) or _COUNT
    return ALIKE if all(flow == ALIKE for flow in given) else _COUNT


def _flow(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Return what the results of an op are, of which all that is given is known."""
    if op.type in _BY_VALUE:
        return _by_value(op, given)
    by = _BY_TYPE.get(op.type)
    if by is not None:
        return by(op, given)
    first_only = given[0] == ROWS and all(flow == ALIKE for flow in given[1:])
    if not first_only:
        return None
    rank = op.inputs[0].shape.rank
    if op.type in _ALONG_LAST_AXIS:
        return ROWS if (rank or 0) >= 2 else None
    if op.type in _BY_IMAGE:
        in_order = b"NCHW" not in (value.s for value in op.node_def.attr.values())
        return ROWS if rank == _RANK_OF_IMAGES and in_order else None
    if op.type in _ALONG_AXES:
        return ROWS if _are_inside(_constant(op.inputs[1]), rank) else None
    return None


def _by_value(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Return that what is fed with rows is theirs, if all have the same axes, and what is alike has none along them."""
    (flow, *others) = {each for each in given if each != ALIKE}
    if others or flow.kind not in (_Kind.ROWS, _Kind.PIECES, _Kind.OWNERS):
        return None
    if flow.kind is _Kind.OWNERS and op.type not in _PASSING_ON:
        return None
    theirs = {tensor.shape.rank for tensor, each in zip(op.inputs, given, strict=True) if each == flow}
    alike = [tensor.shape for tensor, each in zip(op.inputs, given, strict=True) if each == ALIKE]
    (rank, *other_ranks) = theirs
    if other_ranks or not rank or any(shape.rank is None for shape in alike):
        return None
    return flow if all(shape.rank < rank or (shape.rank == rank and shape[0] == 1) for shape in alike) else None


def _is_pinned(op: Any) -> bool:
    """Return whether an op gives a constant, since what it is given was brought within bounds that leave no choice."""
    inner = {"Minimum": "Maximum", "Maximum": "Minimum"}.get(op.type)
    if inner is None or op.outputs[0].shape.rank != 0 or not op.outputs[0].dtype.is_integer:
        return False
    for bounded, bound in (op.inputs, reversed(op.inputs)):
        outer = _constant(bound)
        if outer is None or bounded.op.type != inner:
            continue
        bounds = [each for each in map(_constant, bounded.op.inputs) if each is not None]
        if any((each >= outer) if inner == "Maximum" else (each <= outer) for each in bounds):
            return True
    return False


def _rows_if(holds: Any) -> Flow | None:
    return ROWS if holds else None


def _shape(op: Any, given: Sequence[Flow]) -> Flow | None:
    known = given[0] == ROWS and op.inputs[0].shape.rank and op.inputs[0].shape[1:].is_fully_defined()
    return _SHAPE if known else None


def _expand_dims(op: Any, given: Sequence[Flow]) -> Flow | None:
    axis, rank = _constant(op.inputs[1]), op.inputs[0].shape.rank
    return given[0] if given[0] == ROWS and _are_inside(axis, None if rank is None else rank + 1) else None


def _squeeze(op: Any, given: Sequence[Flow]) -> Flow | None:
    axes = list(op.get_attr("squeeze_dims"))
    return given[0] if given[0] == ROWS and axes and _are_inside(axes, op.inputs[0].shape.rank) else None


def _reshape(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Rows stay rows where as many values as one has, and no more, go into each; then there are as many rows."""
    old, new = op.inputs[0].shape, op.outputs[0].shape
    if given[0] != ROWS or given[1] not in (ALIKE, _SHAPE, _COUNT) or not old.rank or not new.rank:
        return None
    if not (old[1:].is_fully_defined() and new[1:].is_fully_defined()):
        return None
    return _rows_if(math.prod(old[1:]) == math.prod(new[1:]) > 0)


def _strided_slice(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Along the first axis all must be taken; of what tells of pieces, only their rows or the number of rows."""
    begin, end, strides = map(_constant, op.inputs[1:])
    if begin is None or end is None or strides is None or not len(begin):
        return None
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    at_first = {name for name, mask in masks.items() if mask & 1}
    everything = at_first == {"begin", "end"} and strides[0] == 1
    flow = given[0]
    match flow.kind:
        case _Kind.ROWS if at_first == {"ellipsis"}:
            others = len(begin) - 1 - masks["new_axis"].bit_count()
            return _rows_if((op.inputs[0].shape.rank or 0) > others)
        case _Kind.ROWS:
            return _rows_if(everything)
        case _Kind.PLACES if everything and len(begin) == 2 and masks["shrink_axis"] == 2 and begin[1] == 0:
            return Flow(_Kind.OWNERS, flow.of)
        case _Kind.SIZES | _Kind.SHAPE if "shrink_axis" in at_first and begin[0] == 0:
            return _NUMBER
    return None


def _slice(op: Any, given: Sequence[Flow]) -> Flow | None:
    begin, size = map(_constant, op.inputs[1:])
    if given[0] != ROWS or begin is None or size is None:
        return None
    return _rows_if(begin[0] == 0 and size[0] == -1)


def _concat(op: Any, given: Sequence[Flow]) -> Flow | None:
    *parts, axis = op.inputs
    rank = op.outputs[0].shape.rank
    all_rows = all(flow == ROWS for flow in given[: len(parts)])
    return _rows_if(all_rows and _are_inside(_constant(axis), rank))


def _pack(op: Any, given: Sequence[Flow]) -> Flow | None:
    all_rows = all(flow == ROWS for flow in given)
    return _rows_if(all_rows and _are_inside(op.get_attr("axis"), op.outputs[0].shape.rank))


def _unpack(op: Any, given: Sequence[Flow]) -> Flow | None:
    return given[0] if given[0] == ROWS and _are_inside(op.get_attr("axis"), op.inputs[0].shape.rank) else None


def _split(op: Any, given: Sequence[Flow]) -> Flow | None:
    return _rows_if(given[1] == ROWS and _are_inside(_constant(op.inputs[0]), op.inputs[1].shape.rank))


def _split_v(op: Any, given: Sequence[Flow]) -> Flow | None:
    sizes_known = given[0] == ROWS and given[1] == ALIKE
    return _rows_if(sizes_known and _are_inside(_constant(op.inputs[2]), op.inputs[0].shape.rank))


def _pad(op: Any, given: Sequence[Flow]) -> Flow | None:
    paddings = _constant(op.inputs[1])
    untouched = paddings is not None and len(paddings) > 0 and not paddings[0].any()
    return _rows_if(given[0] == ROWS and untouched and all(flow == ALIKE for flow in given[2:]))


def _tile(op: Any, given: Sequence[Flow]) -> Flow | None:
    multiples = _constant(op.inputs[1])
    return _rows_if(given[0] == ROWS and multiples is not None and multiples[0] == 1)


def _transpose(op: Any, given: Sequence[Flow]) -> Flow | None:
    order = _constant(op.inputs[1])
    return _rows_if(given[0] == ROWS and order is not None and order[0] == 0)


def _gather(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Take rows of a table that is alike, each by its own indices, or take of each row what is at some place."""
    axis = _constant(op.inputs[2])
    if axis is None or op.get_attr("batch_dims"):
        return None
    table, indices, _ = given
    if (table, indices) == (ALIKE, ROWS):
        return _rows_if(axis == 0 and op.inputs[1].shape.rank)
    return _rows_if((table, indices) == (ROWS, ALIKE) and _are_inside(axis, op.inputs[0].shape.rank))


def _one_hot(op: Any, given: Sequence[Flow]) -> Flow | None:
    alike = all(flow == ALIKE for flow in given[1:])
    return _rows_if(given[0] == ROWS and alike and _are_inside(op.get_attr("axis"), op.outputs[0].shape.rank))


def _mat_mul(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Multiply each row, or the matrix that it is, by what is alike."""
    transposed = any(op.get_attr(name) for name in ("transpose_a", "adj_x") if name in op.node_def.attr)
    ranks = [tensor.shape.rank for tensor in op.inputs]
    if given != [ROWS, ALIKE] or ranks[1] != 2 or ranks[0] is None or (transposed and ranks[0] == 2):
        return None
    return _rows_if(ranks[0] >= 2)


def _dense_bincount(op: Any, given: Sequence[Flow]) -> Flow | None:
    counts_rows = op.inputs[0].shape.rank == 2 and given == [ROWS, ALIKE, ALIKE]
    return _rows_if(counts_rows and op.inputs[2].shape[0] == 0)


def _ragged_to_tensor(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Lay the pieces of each row side by side, in rows of a width that is the same for all batches."""
    types = list(op.get_attr("row_partition_types"))
    shape = _constant(op.inputs[0])
    if shape is None or shape.shape != (2,) or shape[0] != -1 or shape[1] < 0 or len(given) != _PARTS_OF_RAGGED:
        return None
    _, pieces, default, rows, owners = given
    told = types == [b"FIRST_DIM_SIZE", b"VALUE_ROWIDS"] and default == ALIKE and rows == _NUMBER
    same = pieces.kind is _Kind.PIECES and owners == Flow(_Kind.OWNERS, pieces.of)
    return _rows_if(told and same)


def _sparse_to_dense(op: Any, given: Sequence[Flow]) -> Flow | None:
    places, sizes, pieces, default = given
    crossed = pieces.kind is _Kind.PIECES and pieces.of.type == "SparseCross" and default == ALIKE
    same = places == Flow(_Kind.PLACES, pieces.of) and sizes == Flow(_Kind.SIZES, pieces.of)
    return _rows_if(crossed and same)


def _crosses_rows(op: Any, given: Sequence[Flow]) -> bool:
    """Return whether each row is crossed with itself: then it has as many pieces as the columns say."""
    dense = all(flow == ROWS for flow in given) and not op.get_attr("N")
    return dense and all(each.shape.rank == 2 and each.shape[1] is not None for each in op.inputs)


def _parsed(op: Any, given: Sequence[Flow]) -> list[Flow | None]:
    """Of serialized examples, one a row, what has the same shape in each is a row."""
    sparse, shapes = op.get_attr("num_sparse"), op.get_attr("dense_shapes")
    by_row = given[0] == ROWS and op.inputs[0].shape.rank == 1 and all(flow == ALIKE for flow in given[1:])
    flows: list[Flow | None] = [None] * len(op.outputs)
    for place, shape in enumerate(shapes, 3 * sparse):
        fixed = not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim)
        flows[place] = ROWS if by_row and fixed else None
    return flows


def _constant(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.get_static_value(tensor)


def _are_inside(axes: Any, rank: int | None) -> bool:
    """Return whether axes are known, and none of them is the first one, along which the rows are."""
    import numpy as np

    if axes is None or not rank:
        return False
    return all(axis % rank != 0 for axis in np.ravel(axes).tolist())


_BY_TYPE: dict[str, Callable[[Any, Sequence[Flow]], Flow | None]] = {
    "BatchMatMulV2": _mat_mul,
    "ConcatV2": _concat,
    "DenseBincount": _dense_bincount,
    "ExpandDims": _expand_dims,
    "GatherV2": _gather,
    "MatMul": _mat_mul,
    "OneHot": _one_hot,
    "Pack": _pack,
    "Pad": _pad,
    "PadV2": _pad,
    "RaggedTensorToTensor": _ragged_to_tensor,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "SparseToDense": _sparse_to_dense,
    "Split": _split,
    "SplitV": _split_v,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
}
