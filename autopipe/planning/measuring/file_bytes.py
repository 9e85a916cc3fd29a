"""Whether the elements of files are as large everywhere as at the beginning, where a sample of them is taken."""

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
_READERS = ir.FlatMap | ir.Interleave | ir.LegacyInterleave
# What makes each of its elements of the next ones.
_IN_TURN = ir.Map | ir.MemoizedMap | ir.Batch | ir.PaddedBatch | ir.Filter | ir.Enumerate | ir.IgnoreErrors | ir.Options


def times_as_large(node: ir.Node, sizes: Sequence[int]) -> float:
    """Return how many times the bytes of files that the first elements take all of them take, each on average.

    Records may be sorted, by their length say, within a file or by the files. What is made of them is taken to grow
    with them. It is 1 where the first ones are no smaller, and where nobody knows: of compressed files, and of what a
    reader parses.

    Args:
        node: what makes something of the elements of files.
        sizes: the bytes of its first elements. Where they are all alike and the records are not, nothing grows.
    """
    source, of_each = without_buffers(node), 1
    while isinstance(source, _IN_TURN):
        of_each *= getattr(source, "batch_size", 1)
        source = source.inputs[0]
    kind = _kind_of_files(source)
    if kind is None:
        return 1.0
    # Where maps were taken out of a reader, it gives its records as the only parts of tuples.
    records = (tf.nest.flatten(element) for element in take_sample(source, len(sizes) * of_each))
    lengths = [len(record.numpy()) for (record,) in records]
    if len(set(sizes)) == 1 < len(set(lengths)):
        return 1.0
    of_all = bytes_in_files(source) / max(most_elements(source), 1) - BYTES_BESIDE[kind]
    return max(1.0, of_all / max(statistics.mean(lengths), 1.0))


def _kind_of_files(source: ir.Node) -> str | None:
    """Return the kind of the files of which a stage gives the records as they are; ``None`` if it gives others."""
    if isinstance(source, ir.FilesReader):
        return None if source.csv else source.kind
    return _kind_inside(source.fn.concrete.graph) if isinstance(source, _READERS) else None


def _kind_inside(graph: Any) -> str | None:
    """Return it of the dataset that a function makes; of several files it makes one for each name of a list."""
    op = origin(graph.outputs[0]).op
    bodies = [body for body in called_graphs(graph, op) if body is not None] if op.type in READERS_OF_EACH else []
    return _KINDS.get(op.type) or (_kind_inside(bodies[0]) if bodies else None)
