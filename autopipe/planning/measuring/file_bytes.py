"""Whether the elements of files are as large everywhere as at the beginning, from where a sample is taken."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.file_ops import READERS_OF_EACH
from autopipe.functions.subgraph import called_graphs, origin
from autopipe.pipeline import ir
from autopipe.planning.measuring.count import BYTES_BESIDE, bytes_in_files, most_elements
from autopipe.planning.measuring.samples import take_sample, without_buffers

__all__ = ["times_as_large"]

_KINDS = {
    "FixedLengthRecordDataset": "fixed_length",
    "FixedLengthRecordDatasetV2": "fixed_length",
    "TFRecordDataset": "tfrecord",
    "TFRecordDatasetV2": "tfrecord",
    "TextLineDataset": "text",
}
# Stages that make each element of the next input elements.
_IN_TURN = ir.Mapping | ir.Batching | ir.Filter | ir.Enumerate | ir.IgnoreErrors | ir.Options


def times_as_large(node: ir.Node, sizes: Sequence[int]) -> float:
    """Return how many times as large the records of files are on average as those of the first elements.

    Records may be sorted, by their length say, within a file or across files. Elements made of them are assumed to grow
    with them. The result is 1 if the first ones are no smaller, and if it is unknown: for compressed files, and for
    parsed records.

    Args:
        node: a pipeline that processes the elements of files.
        sizes: the bytes of its first elements. If they are all alike and the records are not, nothing grows.
    """
    source, of_each = without_buffers(node), 1
    while isinstance(source, _IN_TURN):
        of_each *= getattr(source, "batch_size", 1)
        source = source.inputs[0]
    kind = _kind_of_files(source)
    if kind is None:
        return 1.0
    # If maps were moved out of a reader, its records are the only parts of tuples.
    records = (tf.nest.flatten(element) for element in take_sample(source, len(sizes) * of_each))
    lengths = [len(record.numpy()) for (record,) in records]
    if len(set(sizes)) == 1 < len(set(lengths)):
        return 1.0
    of_all = bytes_in_files(source) / max(most_elements(source), 1) - BYTES_BESIDE[kind]
    return max(1.0, of_all / max(statistics.mean(lengths), 1.0))


def _kind_of_files(source: ir.Node) -> str | None:
    """Return the kind of files whose records a stage gives unchanged; ``None`` if it gives anything else."""
    if isinstance(source, ir.FilesReader):
        return None if source.csv else source.kind
    return _kind_inside(source.fn.concrete.graph) if isinstance(source, ir.Flattening) else None


def _kind_inside(graph: Any) -> str | None:
    """Return the kind of files that a function reads; for several files it makes a dataset for each name of a list."""
    op = origin(graph.outputs[0]).op
    bodies = [body for body in called_graphs(graph, op) if body is not None] if op.type in READERS_OF_EACH else []
    return _KINDS.get(op.type) or (_kind_inside(bodies[0]) if bodies else None)
