"""What a function does beside arithmetic and making datasets, and what these do inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopipe.functions.fixed_part import work_of
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import called_graphs

__all__ = ["inner_work"]

# The only dataset that does more than handing elements on.
_PARSER = "CSVDatasetV2"


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
    """Yield the ops of a graph, and in place of datasets those that they call."""
    for op in graph.get_operations():
        if "Dataset" not in op.type or op.type == _PARSER:
            yield op
        for body in filter(None, called_graphs(graph, op)) if "Dataset" in op.type else ():
            yield from _ops(body)
