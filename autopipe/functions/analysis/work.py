"""Which ops of a function are work: those that take longer than reading their result from memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from autopipe.functions.analysis.effects import described
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import called_graphs

__all__ = ["does_work", "inner_work", "is_work", "work_of"]

# Ops that take no longer than reading their result from memory.
_NEXT_TO_NOTHING = frozenset(
    "Abs AddV2 All Any Assert Cast ClipByValue ConcatV2 Const Equal ExpandDims Fill Floor FloorDiv FloorMod "
    "GatherV2 Greater GreaterEqual Identity IdentityN Less LessEqual LogicalAnd LogicalNot LogicalOr Max Maximum "
    "Mean Min Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack Placeholder Prod Range Rank RealDiv Reshape "
    "ReverseV2 Round Select SelectV2 Shape Sign Size Slice Square Squeeze StridedSlice Sub Sum Transpose Unpack "
    "ZerosLike".split()
)
# The only dataset op that does more than pass on elements.
_PARSER = "CSVDatasetV2"


def is_work(op: Any) -> bool:
    """Return whether an op does more than arithmetic and moving data, which cost no more than a cache."""
    return op.type not in _NEXT_TO_NOTHING


def does_work(fn: Function) -> bool:
    """Return whether any op of a function is work."""
    return any(map(is_work, fn.concrete.graph.get_operations()))


def work_of(ops: Iterable[Any]) -> str:
    """Return the ops among these that are work, each with where its author wrote it."""
    return ", ".join(dict.fromkeys(described(op.graph, op) for op in ops if is_work(op)))


@remembered
def inner_work(fn: Function) -> str:
    """Return the ops that do more than arithmetic and moving data, each with where its author wrote it.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> files = tf.data.Dataset.from_tensors("a.txt")
    >>> lines = function_of(files.flat_map(tf.data.TextLineDataset))
    >>> words = function_of(files.flat_map(lambda file: tf.data.TextLineDataset(file).map(tf.strings.upper)))
    >>> inner_work(lines), inner_work(words)[:11]
    ('', 'StringUpper')
    """
    return work_of(_ops(fn.concrete.graph))


def _ops(graph: Any) -> Iterator[Any]:
    """Yield the ops of a graph, with the ops that datasets call in place of the datasets."""
    for op in graph.get_operations():
        if "Dataset" not in op.type or op.type == _PARSER:
            yield op
        for body in filter(None, called_graphs(graph, op)) if "Dataset" in op.type else ():
            yield from _ops(body)
