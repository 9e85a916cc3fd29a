"""Functions that make a dataset of the rows of a CSV file, as those of ``make_csv_dataset`` do."""

from __future__ import annotations

from autopipe.functions.function import Function
from autopipe.functions.subgraph import constant

__all__ = ["has_a_line_for_each_row"]

_PARSER = "CSVDatasetV2"
# Ops that give no more rows than they take, and do not read.
_BESIDE = frozenset("Const Identity IgnoreErrorsDataset IgnoreErrorsDatasetV2 NoOp Placeholder".split())


def has_a_line_for_each_row(fn: Function) -> bool:
    """Return whether the dataset that a function makes of a file has at most as many elements as the file has lines.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> rows = lambda file, kind: tf.data.experimental.CsvDataset(file, [tf.int32], kind)
    >>> files = tf.data.Dataset.from_tensors("a.csv")
    >>> [has_a_line_for_each_row(extract(files.flat_map(lambda file: rows(file, kind))).fn) for kind in ("", "GZIP")]
    [True, False]
    """
    ops = fn.concrete.graph.get_operations()
    parsers = [op for op in ops if op.type == _PARSER]
    compressions = [constant(parser.inputs[1]) for parser in parsers]
    return len(parsers) == 1 and compressions == [b""] and all(op.type in _BESIDE for op in ops if op not in parsers)
