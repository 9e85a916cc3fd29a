"""Attempts to write all elements of a pipeline, each in its own folder, and what proves that one is complete.

TensorFlow writes and closes the data, gives it its final name, writes and closes the index, and then deletes its lock
file. If there is an index but no lock file, everything was handed to the kernel, which survives a killed process. It
does not survive a crash of the machine: so this is proof only until the machine is restarted. Meanwhile the files are
forced to the disk, and then a mark with their sizes, which is permanent proof. If the number of elements is known, the
last one must be there; if not, the consumer that read them while they were written must have come to the end:
TensorFlow leaves out elements that failed if a prefetch goes on.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from pathlib import Path
from typing import Any

import tensorflow as tf

from autopipe.planning.disk.writers import here, place

__all__ = ["ENDED", "NAME", "has_element", "index_of", "is_complete", "is_finished", "number_of"]

NAME = "data"
"""The prefix of the names of TensorFlow's files."""

ENDED = "ended"
"""The file that notes that the consumer came to the end while the elements were written."""

_MARK = "complete"


def is_complete(attempt: Path) -> bool:
    """Return whether all elements are there, by either proof; after the first kind, the second is prepared."""
    if not is_finished(attempt):
        return False
    if (attempt / _MARK).exists():
        return True
    if not _is_readable(attempt):
        return False
    # Forcing it to the disk may take long, and is not needed while this machine runs.
    threading.Thread(target=_mark, args=(attempt,), daemon=True).start()
    return True


def is_finished(attempt: Path) -> bool:
    """Return whether TensorFlow came to the end of writing, judging by the files without reading them."""
    # In this order: the lock file is deleted after the index is written.
    if not (attempt / f"{NAME}.index").exists() or _is_being_written(attempt):
        return False
    try:
        mark = (attempt / _MARK).read_text()
    except FileNotFoundError:
        return place(attempt) == here()
    except OSError:
        return False
    return mark == _sizes(attempt)


def _is_being_written(attempt: Path) -> bool:
    return any(attempt.glob(f"{NAME}_*.lockfile"))


def _is_readable(attempt: Path) -> bool:
    """Return whether the index can be read and has the last element, or, if the number is unknown, the end was noted.

    The last element is missing if one failed and the consumer went on: TensorFlow then keeps the others.
    """
    index = index_of(attempt)
    if index is None:
        return False
    number = number_of(attempt)
    if number is None:
        return (attempt / ENDED).exists()
    return number == 0 or has_element(index, number - 1)


def index_of(attempt: Path) -> Any:
    """Return the index by which TensorFlow finds the elements; ``None`` if it cannot be read."""
    try:
        return tf.train.load_checkpoint(str(attempt / NAME))
    except (tf.errors.OpError, RuntimeError, ValueError):
        return None


def number_of(attempt: Path) -> int | None:
    """Return how many elements there must be; ``None`` if that is unknown."""
    number = attempt.parent.name.partition(".")[2]
    return int(number) if number.isdecimal() else None


def has_element(index: Any, position: int) -> bool:
    """Return whether the element at a position is in an index."""
    # The key of a tensor is the position of its element and its own position, each padded to the width of the largest.
    return any(index.has_tensor(f"{position:7d}_{0:{width}d}") for width in range(1, 4))


def _sizes(attempt: Path) -> str:
    return json.dumps({path.name: path.stat().st_size for path in sorted(attempt.glob(f"{NAME}.*"))})


def _mark(attempt: Path) -> None:
    """Force an attempt to the disk, and then mark it as complete."""
    draft = attempt / f"{_MARK}.{uuid.uuid4().hex[:8]}"
    try:
        sizes = _sizes(attempt)
        for path in (*attempt.glob(f"{NAME}.*"), attempt):
            _force_to_disk(path)
        draft.write_text(sizes)
        _force_to_disk(draft)
        draft.rename(attempt / _MARK)
        _force_to_disk(attempt)
    except OSError:
        draft.unlink(missing_ok=True)


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
