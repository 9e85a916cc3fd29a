"""What memoized maps hold, apart from the iterators that read it."""

from __future__ import annotations

import tensorflow as tf

from autopipe.pipeline import ir, trees

__all__ = ["Tables"]

# Where each epoch takes other elements of a shuffle, the last of them may come after many epochs.
_FEW_NEW = 0.05


class Tables:
    """The tables of a pipeline's memoized maps, all iterators share them.

    Args:
        tree: the pipeline, with the live tables in it.

    >>> from autopipe.pipeline.extract import extract
    >>> tables = Tables(extract(tf.data.Dataset.range(3)))
    >>> tables.are_full
    True
    """

    def __init__(self, tree: ir.Node) -> None:
        self._tables = [node.table for node in trees.inputs_first(tree) if isinstance(node, ir.MemoizedMap)]
        self._before, self._at_start = self._sizes(), self._sizes()

    def note_start(self) -> None:
        """Take note that an iterator begins."""
        if self._tables:
            self._before, self._at_start = self._at_start, self._sizes()

    @property
    def are_full(self) -> bool:
        """Whether the epoch before this one found nearly all results there."""
        pairs = zip(self._before, self._at_start, strict=True)
        return all(now and now - before <= _FEW_NEW * now for before, now in pairs)

    def _sizes(self) -> list[int]:
        return [int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) for table in self._tables]
