"""The results that memoized maps hold, apart from the iterators that read them."""

from __future__ import annotations

from collections import deque

import tensorflow as tf

from autopipe.pipeline import ir, trees

__all__ = ["Tables"]

# At most this share of the results may be new in tables that count as full: if each epoch takes other elements of a
# shuffle, the last result may come only after many epochs.
_FEW_NEW = 0.05
# Keras makes an iterator when an epoch ends, and another when the next one begins: three starts span an epoch.
_STARTS = 3
# At least this many elements must be given before results can settle: more than are made ahead.
_FEWEST_GIVEN = 64


class Tables:
    """The tables of a pipeline's memoized maps; all iterators share them.

    Args:
        tree: the pipeline, with the live tables in it.

    >>> from autopipe.pipeline.extract import extract
    >>> tables = Tables(extract(tf.data.Dataset.range(3)))
    >>> tables.are_full
    True
    """

    def __init__(self, tree: ir.Node) -> None:
        self._tables = [node.table for node in trees.inputs_first(tree) if isinstance(node, ir.MemoizedMap)]
        self._at_starts: deque[list[int]] = deque(maxlen=_STARTS)
        self._asked: tuple[int, list[int]] | None = None
        self._settled = not self._tables

    def note_start(self) -> None:
        """Note that an iterator begins."""
        if self._tables:
            self._at_starts.append(self._sizes())

    @property
    def are_full(self) -> bool:
        """Whether the last epoch or two found nearly all results in the tables."""
        if not self._tables:
            return True
        return len(self._at_starts) == _STARTS and _hardly_grew(self._at_starts[0], self._at_starts[-1])

    def have_settled(self, given: int) -> bool:
        """Return whether hardly any new result came with the later half of an iterator's elements.

        This is for an iterator that serves all epochs. Call it again and again.

        Args:
            given: how many elements it has given so far.
        """
        enough = _FEWEST_GIVEN if self._asked is None else 2 * self._asked[0]
        if not self._settled and given >= enough:
            before, self._asked = self._asked, (given, self._sizes())
            self._settled = before is not None and _hardly_grew(before[1], self._asked[1])
        return self._settled

    def _sizes(self) -> list[int]:
        return [int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) for table in self._tables]


def _hardly_grew(before: list[int], after: list[int]) -> bool:
    return all(now and now - then <= _FEW_NEW * now for then, now in zip(before, after, strict=True))
