"""Checkpoints of iterators, as ``tf.train.Checkpoint`` makes them: what is saved, and what can be restored.

TensorFlow refuses an iterator whose functions have a state. The entries of a table of results need not be saved: they
can be computed again. And it restores only into the same stages; an iterator that fills a cache has other stages than
one that reads it. A shuffle is not restored correctly if its buffer has another size, so the knobs are saved too. So is
whether an element failed, which would be missing from a cache. Private methods of TensorFlow are replaced here,
``OwnedIterator._serialize_to_tensors`` and ``_restore_from_tensors``, and another is called, ``_track_trackable``.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.runtime.readings import Reading
from autopipe.runtime.repoint import state_of

__all__ = ["Progress", "make_savable"]

_STATE = "_STATE"
_PROGRESS = "autopipe_progress"
_HALF_WRITTEN = (
    "An iterator can be saved in a checkpoint once its disk caches are whole, but this one still writes them, and "
    "a half-written file cannot be continued. Save from the second epoch on, or give optimize() no disk_cache."
)
_OTHER_STAGES = (
    "An iterator can be restored if its pipeline has the stages of the one that was saved, but this one has others: "
    "which rules are applied is measured anew each time. Store dataset.plan beside the checkpoint, by its save(path), "
    "and make the dataset with optimize(dataset, plan=path)."
)


@dataclass(frozen=True)
class Progress:
    """What is saved of an iterator beside its state.

    Attributes:
        knobs: the knobs it ran with.
        given, in_vain: what its consumer asked for, as :class:`autopipe.runtime.requests.Requests` counts it.
    """

    knobs: Mapping[str, int]
    given: int = 0
    in_vain: int = 0

    @classmethod
    def of(cls, reading: Reading) -> Progress:
        """Return the progress of a reading."""
        requests = reading.requests
        return cls(reading.knobs) if requests is None else cls(reading.knobs, requests.given, requests.in_vain)


class _SavedProgress(tf.train.experimental.PythonState):  # type: ignore[misc]
    """The progress of an iterator in its checkpoint; TensorFlow restores it before the iterator itself."""

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._reading = reading
        self._restored = Progress({})

    def serialize(self) -> str:
        """Return the progress of the reading as text."""
        return json.dumps(asdict(Progress.of(self._reading)))

    def deserialize(self, string: str | bytes) -> None:
        """Take the progress of another iterator."""
        self._restored = Progress(**json.loads(string))

    def taken(self) -> Progress:
        """Return what was restored since the last call."""
        restored, self._restored = self._restored, Progress({})
        return restored


def make_savable(iterator: Any, reading: Reading, restore: Callable[[Any, Progress], bool]) -> None:
    """Have checkpoints leave out what can be computed again, and restore what was saved in another epoch.

    If anything else has a state, they are refused as before.

    Args:
        iterator: an iterator over an optimized dataset.
        reading: what is known of it.
        restore: makes the iterator go on from the state of another one, and its progress, and returns whether it does.
    """
    itself, kind, progress = weakref.ref(iterator), type(iterator), _SavedProgress(reading)

    def save() -> Any:
        if reading.writes:
            raise tf.errors.FailedPreconditionError(None, None, _HALF_WRITTEN)
        return (
            {_STATE: state_of(itself())} if _keeps_only_tables(reading.tree) else kind._serialize_to_tensors(itself())
        )

    def restore_any(saved: Mapping[str, Any]) -> Any:
        if not restore(saved[_STATE], progress.taken()):
            raise tf.errors.NotFoundError(None, None, _OTHER_STAGES)
        return []

    iterator._serialize_to_tensors = save
    iterator._restore_from_tensors = restore_any
    iterator._track_trackable(progress, _PROGRESS)


def _keeps_only_tables(tree: ir.Node) -> bool:
    keeps = any(isinstance(node, ir.MemoizedMap) for node in trees.walk(tree))
    return keeps and all(effects(fn).steady for fn in trees.functions(tree))
