"""Checkpoints of iterators, as ``tf.train.Checkpoint`` makes them: what is saved, and what can be restored.

It refuses an iterator whose functions have a state. What a table of results holds need not be saved: it can be worked
out again. And it restores only into the same stages; one that fills a cache has others than one that reads it. Private
methods of TensorFlow are replaced here, ``OwnedIterator._serialize_to_tensors`` and ``_restore_from_tensors``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.runtime.reading import Reading
from autopipe.runtime.repoint import state_of

__all__ = ["make_savable"]

_STATE = "_STATE"
_HALF_WRITTEN = (
    "An iterator can be saved in a checkpoint once its disk caches are whole, but this one still writes them, and "
    "nobody could go on with a file half written. Save from the second epoch on, or give optimize() no disk_cache."
)
_OTHER_STAGES = (
    "An iterator can be restored where its pipeline has the stages of the one that was saved, but this one has others: "
    "which rules are applied is measured anew each time. Store dataset.plan beside the checkpoint, by its save(path), "
    "and make the dataset with optimize(dataset, plan=path)."
)


def make_savable(iterator: Any, reading: Reading, restore: Callable[[Any], bool]) -> None:
    """Have checkpoints leave out what can be worked out again, and restore what was saved in another epoch.

    Where anything else has a state, they are refused as before.

    Args:
        iterator: an iterator over an optimized dataset.
        reading: what is known of it.
        restore: makes the iterator go on from the state of another one, and returns whether it does.
    """
    itself, kind = weakref.ref(iterator), type(iterator)

    def save() -> Any:
        if reading.writes:
            raise tf.errors.FailedPreconditionError(None, None, _HALF_WRITTEN)
        return (
            {_STATE: state_of(itself())} if _keeps_only_tables(reading.tree) else kind._serialize_to_tensors(itself())
        )

    def restore_any(saved: Mapping[str, Any]) -> Any:
        if not restore(saved[_STATE]):
            raise tf.errors.NotFoundError(None, None, _OTHER_STAGES)
        return []

    iterator._serialize_to_tensors = save
    iterator._restore_from_tensors = restore_any


def _keeps_only_tables(tree: ir.Node) -> bool:
    keeps = any(isinstance(node, ir.MemoizedMap) for node in trees.walk(tree))
    return keeps and all(effects(fn).steady for fn in trees.functions(tree))
