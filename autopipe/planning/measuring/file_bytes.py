"""Whether the elements of files are as large everywhere as at the beginning, where a sample of them is taken."""

from __future__ import annotations

import statistics

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir
from autopipe.pipeline.signature import signature
from autopipe.planning.measuring.count import bytes_in_files, most_elements
from autopipe.planning.measuring.samples import take_sample, without_buffers

__all__ = ["times_as_large"]

_READERS = ir.FlatMap | ir.Interleave | ir.LegacyInterleave
# What makes each of its elements of the next ones.
_IN_TURN = ir.Map | ir.MemoizedMap | ir.Batch | ir.PaddedBatch | ir.Filter | ir.Enumerate | ir.IgnoreErrors | ir.Options


def times_as_large(node: ir.Node, sampled: int) -> float:
    """Return how many times the bytes of files that the first elements take all of them take, each on average.

    Records may be sorted, by their length say, within a file or by the files. What is made of them is taken to grow
    with them. It is 1 where the first ones are no smaller, and where nobody knows: of compressed files, and of what a
    reader parses.

    Args:
        node: what makes something of the elements of files.
        sampled: how many of its first elements are known.
    """
    source, of_each = without_buffers(node), 1
    while isinstance(source, _IN_TURN):
        of_each *= getattr(source, "batch_size", 1)
        source = source.inputs[0]
    if not _gives_what_files_hold(source):
        return 1.0
    first = statistics.mean(len(record.numpy()) for record in take_sample(source, sampled * of_each))
    return max(1.0, bytes_in_files(source) / max(most_elements(source), 1) / max(first, 1.0))


def _gives_what_files_hold(source: ir.Node) -> bool:
    import tensorflow as tf

    if isinstance(source, ir.FilesReader):
        return not source.csv
    spec = signature(source).element_spec
    if not isinstance(source, _READERS) or not isinstance(spec, tf.TensorSpec):
        return False
    return spec.dtype == tf.string and spec.shape.rank == 0 and bool(effects(source.fn).file_reads)
