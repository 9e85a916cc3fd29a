"""What ops make of the pieces of rows, such as words of sentences, in ragged and sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopipe.functions.analysis.row_flows import ALIKE, NUMBER, ROWS, Flow, Kind
from autopipe.functions.subgraph import constant

__all__ = ["of_pieces", "take_apart"]

# Ways to give the row of each piece: where rows begin and end, or the number of rows and the row of each piece.
_BY_SPLITS, _BY_OWNERS = [b"ROW_SPLITS"], [b"FIRST_DIM_SIZE", b"VALUE_ROWIDS"]


def take_apart(op: Any, given: Sequence[Flow]) -> list[Flow] | None:
    """Return the flows of the results of an op that splits each row into pieces; ``None`` if it does not."""
    match op.type:
        case "StringSplitV2" if given[0] == ROWS and given[1] == ALIKE:
            kinds = (Kind.PLACES, Kind.PIECES, Kind.SIZES)
        case "SparseCross" if _crosses_rows(op, given):
            kinds = (Kind.PLACES, Kind.PIECES, Kind.SIZES)
        case "StringNGrams" if _are_of_one(given[0], given[1]):
            return [Flow(Kind.PIECES, op), Flow(Kind.SPLITS, op)]
        case _:
            return None
    return [Flow(kind, op) for kind in kinds]


def of_pieces(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Return the flow of the result of an op that works on pieces, or on a tensor that assigns them to rows."""
    match op.type:
        case "Reshape":
            return given[0] if given[0].kind is Kind.OWNERS and _is(op.inputs[1], [-1]) else None
        case "DenseBincount":
            return _lengths(op, given)
        case "Cumsum":
            counts_on = given[0].kind is Kind.LENGTHS and _is(op.inputs[1], 0)
            plain = not (op.get_attr("exclusive") or op.get_attr("reverse"))
            return Flow(Kind.ENDS, given[0].of) if counts_on and plain else None
        case "ConcatV2":
            from_nought = len(given) == 3 and given[1].kind is Kind.ENDS and _is(op.inputs[0], [0])
            return Flow(Kind.SPLITS, given[1].of) if from_nought else None
        case "RaggedTensorToTensor":
            return _ragged_to_tensor(op, given)
        case "RaggedBincount":
            splits, pieces, size, weights = given
            unweighed = size == weights == ALIKE and op.inputs[3].shape[0] == 0
            return ROWS if unweighed and _are_of_one(pieces, splits) else None
        case "SparseToDense":
            return _sparse_to_dense(given)
    return None


def _is(tensor: Any, expected: Any) -> bool:
    value = constant(tensor)
    return value is not None and value.tolist() == expected


def _are_of_one(pieces: Flow, splits: Flow) -> bool:
    """Return whether the second tensor assigns the pieces to rows."""
    return pieces.kind is Kind.PIECES and splits == Flow(Kind.SPLITS, pieces.of)


def _crosses_rows(op: Any, given: Sequence[Flow]) -> bool:
    """Return whether each row is crossed with itself: then it has as many pieces as the columns say."""
    dense = all(flow == ROWS for flow in given) and not op.get_attr("N")
    return dense and all(each.shape.rank == 2 and each.shape[1] is not None for each in op.inputs)


def _lengths(op: Any, given: Sequence[Flow]) -> Flow | None:
    owners, size, weights = given
    counted = owners.kind is Kind.OWNERS and size == NUMBER and not op.get_attr("binary_output")
    return Flow(Kind.LENGTHS, owners.of) if counted and weights == ALIKE and op.inputs[2].shape[0] == 0 else None


def _ragged_to_tensor(op: Any, given: Sequence[Flow]) -> Flow | None:
    """Lay the pieces of each row side by side, in rows of a width that is the same for all batches."""
    types = list(op.get_attr("row_partition_types"))
    shape = constant(op.inputs[0])
    if shape is None or shape.shape != (2,) or shape[0] != -1 or shape[1] < 0:
        return None
    _, pieces, default, *told = given
    if default != ALIKE or pieces.kind is not Kind.PIECES:
        return None
    by_owners = types == _BY_OWNERS and told == [NUMBER, Flow(Kind.OWNERS, pieces.of)]
    by_splits = types == _BY_SPLITS and _are_of_one(pieces, told[0])
    return ROWS if by_owners or by_splits else None


def _sparse_to_dense(given: Sequence[Flow]) -> Flow | None:
    places, sizes, pieces, default = given
    crossed = pieces.kind is Kind.PIECES and pieces.of.type == "SparseCross" and default == ALIKE
    same = places == Flow(Kind.PLACES, pieces.of) and sizes == Flow(Kind.SIZES, pieces.of)
    return ROWS if crossed and same else None
