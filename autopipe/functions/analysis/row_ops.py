"""What ops make of the rows of a batch. Ops that are not named here are assumed to mix them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autopipe.functions.analysis.piece_ops import of_pieces, take_apart
from autopipe.functions.analysis.row_flows import ALIKE, COUNT, NUMBER, ROWS, SHAPE, Flow, Kind
from autopipe.functions.subgraph import constant

__all__ = ["flows_through"]


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
_TELLING_OF_PIECES = (Kind.OWNERS, Kind.LENGTHS, Kind.ENDS, Kind.SPLITS)
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


def flows_through(op: Any, given: Sequence[Flow | None]) -> Sequence[Flow | None]:
    """Return the flow of each result of an op."""
    mixed = [None] * len(op.outputs)
    if op.op_def.is_stateful and op.type not in _BY_VALUE:
        return mixed
    if None in given:
        return [_bounded(op, given)] * len(op.outputs)
    known = [flow for flow in given if flow is not None]
    if all(flow in (ALIKE, NUMBER, SHAPE, COUNT) for flow in known):
        return [_of_count(op, known)] * len(op.outputs)
    match op.type:
        case "IdentityN":
            return known
        case "ParseExampleV2":
            return _parsed(op, known)
    apart = take_apart(op, known)
    return [_flow(op, known) or of_pieces(op, known)] * len(op.outputs) if apart is None else apart


def _of_count(op: Any, given: Sequence[Flow]) -> Flow:
    match op.type:
        case "Cast" | "Identity":
            return given[0]
        case "Fill" if given == [SHAPE, ALIKE]:
            return ROWS
        case "Pack" if given[0] == NUMBER and op.get_attr("axis") == 0:
            return SHAPE if all(flow == ALIKE for flow in given[1:]) else COUNT
        case "StridedSlice" if given[0] == SHAPE:
            return _strided_slice(op, given) or COUNT
    return ALIKE if all(flow == ALIKE for flow in given) else COUNT


def _flow(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Return the flow of the results of an op, if those of all operands are known."""
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
        return ROWS if _are_inside(constant(op.inputs[1]), rank) else None
    return None


def _by_value(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Return the one flow that is not alike, if axes match and operands that are alike have none along the rows."""
    (flow, *others) = {each for each in given if each != ALIKE}
    if others or flow.kind not in (Kind.ROWS, Kind.PIECES, *_TELLING_OF_PIECES):
        return None
    if flow.kind in _TELLING_OF_PIECES and op.type not in _PASSING_ON:
        return None
    theirs = {tensor.shape.rank for tensor, each in zip(op.inputs, given, strict=True) if each == flow}
    alike = [tensor.shape for tensor, each in zip(op.inputs, given, strict=True) if each == ALIKE]
    (rank, *other_ranks) = theirs
    if other_ranks or not rank or any(shape.rank is None for shape in alike):
        return None
    return flow if all(shape.rank < rank or (shape.rank == rank and shape[0] == 1) for shape in alike) else None


def _bounded(op: Any, given: Sequence[Flow | None]) -> Flow | None:
    """Return the flow of an op that clips a number to equal bounds, so that the number does not matter."""
    inner = {"Minimum": "Maximum", "Maximum": "Minimum"}.get(op.type)
    if inner is None or op.outputs[0].shape.rank != 0 or not op.outputs[0].dtype.is_integer:
        return None
    for place, bounded in enumerate(op.inputs):
        if bounded.op.type != inner:
            continue
        bound = op.inputs[1 - place]
        if any(each is bound for each in bounded.op.inputs):
            return given[1 - place]
        outer = constant(bound)
        bounds = [each for each in map(constant, bounded.op.inputs) if each is not None]
        if outer is not None and any((each >= outer) if inner == "Maximum" else (each <= outer) for each in bounds):
            return ALIKE
    return None


def _rows_if(holds: Any) -> Flow | None:
    return ROWS if holds else None


def _shape(op: Any, given: Sequence[Flow]) -> Flow | None:
    known = given[0] == ROWS and op.inputs[0].shape.rank and op.inputs[0].shape[1:].is_fully_defined()
    return SHAPE if known else None


def _expand_dims(op: Any, given: Sequence[Flow]) -> Flow | None:
    axis, rank = constant(op.inputs[1]), op.inputs[0].shape.rank
    return given[0] if given[0] == ROWS and _are_inside(axis, None if rank is None else rank + 1) else None


def _squeeze(op: Any, given: Sequence[Flow]) -> Flow | None:
    axes = list(op.get_attr("squeeze_dims"))
    return given[0] if given[0] == ROWS and axes and _are_inside(axes, op.inputs[0].shape.rank) else None


def _reshape(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Rows stay rows if each new row has as many values as an old one; then their number is the same."""
    old, new = op.inputs[0].shape, op.outputs[0].shape
    if given[0] != ROWS or given[1] not in (ALIKE, SHAPE, COUNT) or not old.rank or not new.rank:
        return None
    if not (old[1:].is_fully_defined() and new[1:].is_fully_defined()):
        return None
    return _rows_if(math.prod(old[1:]) == math.prod(new[1:]) > 0)


def _strided_slice(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Along the first axis all must be taken; of tensors about pieces, only their rows or the number of rows."""
    begin, end, strides = map(constant, op.inputs[1:])
    if begin is None or end is None or strides is None or not len(begin):
        return None
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    at_first = {name for name, mask in masks.items() if mask & 1}
    everything = at_first == {"begin", "end"} and strides[0] == 1
    flow = given[0]
    match flow.kind:
        case Kind.ROWS if at_first == {"ellipsis"}:
            others = len(begin) - 1 - masks["new_axis"].bit_count()
            return _rows_if((op.inputs[0].shape.rank or 0) > others)
        case Kind.ROWS:
            return _rows_if(everything)
        case Kind.PLACES if everything and len(begin) == 2 and masks["shrink_axis"] == 2 and begin[1] == 0:
            return Flow(Kind.OWNERS, flow.of)
        case Kind.SIZES | Kind.SHAPE if "shrink_axis" in at_first and begin[0] == 0:
            return NUMBER
    return None


def _slice(op: Any, given: Sequence[Flow]) -> Flow | None:
    begin, size = map(constant, op.inputs[1:])
    if given[0] != ROWS or begin is None or size is None:
        return None
    return _rows_if(begin[0] == 0 and size[0] == -1)


def _concat(op: Any, given: Sequence[Flow]) -> Flow | None:
    *parts, axis = op.inputs
    rank = op.outputs[0].shape.rank
    all_rows = all(flow == ROWS for flow in given[: len(parts)])
    return _rows_if(all_rows and _are_inside(constant(axis), rank))


def _pack(op: Any, given: Sequence[Flow]) -> Flow | None:
    all_rows = all(flow == ROWS for flow in given)
    return _rows_if(all_rows and _are_inside(op.get_attr("axis"), op.outputs[0].shape.rank))


def _unpack(op: Any, given: Sequence[Flow]) -> Flow | None:
    return given[0] if given[0] == ROWS and _are_inside(op.get_attr("axis"), op.inputs[0].shape.rank) else None


def _split(op: Any, given: Sequence[Flow]) -> Flow | None:
    return _rows_if(given[1] == ROWS and _are_inside(constant(op.inputs[0]), op.inputs[1].shape.rank))


def _split_v(op: Any, given: Sequence[Flow]) -> Flow | None:
    sizes_known = given[0] == ROWS and given[1] == ALIKE
    return _rows_if(sizes_known and _are_inside(constant(op.inputs[2]), op.inputs[0].shape.rank))


def _pad(op: Any, given: Sequence[Flow]) -> Flow | None:
    paddings = constant(op.inputs[1])
    untouched = paddings is not None and len(paddings) > 0 and not paddings[0].any()
    return _rows_if(given[0] == ROWS and untouched and all(flow == ALIKE for flow in given[2:]))


def _tile(op: Any, given: Sequence[Flow]) -> Flow | None:
    multiples = constant(op.inputs[1])
    return _rows_if(given[0] == ROWS and multiples is not None and multiples[0] == 1)


def _transpose(op: Any, given: Sequence[Flow]) -> Flow | None:
    order = constant(op.inputs[1])
    return _rows_if(given[0] == ROWS and order is not None and order[0] == 0)


def _gather(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Take rows of a table that is alike by each row's own indices, or the same positions of each row."""
    axis = constant(op.inputs[2])
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
    """Multiply each row, or its matrix, by an operand that is alike."""
    transposed = any(op.get_attr(name) for name in ("transpose_a", "adj_x") if name in op.node_def.attr)
    ranks = [tensor.shape.rank for tensor in op.inputs]
    if given != [ROWS, ALIKE] or ranks[1] != 2 or ranks[0] is None or (transposed and ranks[0] == 2):
        return None
    return _rows_if(ranks[0] >= 2)


def _dense_bincount(op: Any, given: Sequence[Flow]) -> Flow | None:
    counts_rows = op.inputs[0].shape.rank == 2 and given == [ROWS, ALIKE, ALIKE]
    return _rows_if(counts_rows and op.inputs[2].shape[0] == 0)


def _parsed(op: Any, given: Sequence[Flow]) -> list[Flow | None]:
    """Features of the same shape in all serialized examples, one per row, are rows."""
    sparse, shapes = op.get_attr("num_sparse"), op.get_attr("dense_shapes")
    by_row = given[0] == ROWS and op.inputs[0].shape.rank == 1 and all(flow == ALIKE for flow in given[1:])
    flows: list[Flow | None] = [None] * len(op.outputs)
    for place, shape in enumerate(shapes, 3 * sparse):
        fixed = not shape.unknown_rank and all(dim.size >= 0 for dim in shape.dim)
        flows[place] = ROWS if by_row and fixed else None
    return flows


def _are_inside(axes: Any, rank: int | None) -> bool:
    """Return whether axes are known, and none of them is the first one, along which the rows are."""
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
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "SplitV": _split_v,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
}
