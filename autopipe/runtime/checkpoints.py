"""Checkpoints of iterators whose pipelines have no state but what memoized maps keep.

``tf.train.Checkpoint`` refuses an iterator whose functions have a state. What a table holds need not be saved: it can
be worked out again. A private method of TensorFlow is replaced here, ``OwnedIterator._serialize_to_tensors``.
"""

from __future__ import annotations

import weakref
from typing import Any

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.runtime.repoint import state_of

__all__ = ["save_without_tables"]


def save_without_tables(iterator: Any, tree: ir.Node) -> None:
    """Have checkpoints leave out what memoized maps keep; where anything else has a state, they are refused as before.

    Args:
        iterator: an iterator over the pipeline.
        tree: the pipeline.
    """
    keeps = any(isinstance(node, ir.MemoizedMap) for node in trees.walk(tree))
    if not keeps or not all(effects(fn).steady for fn in trees.functions(tree)):
        return
    itself = weakref.ref(iterator)
    iterator._serialize_to_tensors = lambda: {"_STATE": state_of(itself())}
