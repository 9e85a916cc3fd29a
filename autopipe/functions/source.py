"""Which line of the user's file an op of a traced function was written in."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import tensorflow as tf

__all__ = ["copy_source", "folders_of_libraries", "written_at"]

_COPIED = "_autopipe_copied"


def written_at(op: Any) -> str | None:
    """Return ``file.py:12`` of the innermost call that is not in TensorFlow, Keras or autopipe.

    ``None`` if Python cannot tell, as for a function that was loaded.

    >>> import tensorflow as tf
    >>> graph = tf.function(lambda x: x + 1).get_concrete_function(1).graph
    >>> isinstance(written_at(graph.get_operations()[0]), str | None)
    True
    """
    folders = folders_of_libraries()
    for frame in reversed(getattr(op, _COPIED, op).traceback or ()):
        if not frame.filename.startswith(folders):
            return f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return None


def copy_source(op: Any, copy: Any) -> None:
    """Note on a copy the op that the user wrote: the traceback of the copy ends in autopipe.

    The line is rarely asked for, and searching a traceback takes longer than copying an op.
    """
    setattr(copy, _COPIED, getattr(op, _COPIED, op))


@lru_cache(maxsize=1)
def folders_of_libraries() -> tuple[str, ...]:
    """Return the folders whose code is not the user's: those of TensorFlow, Keras and autopipe."""
    import keras

    libraries = [os.path.dirname(module.__file__) for module in (tf, keras) if module.__file__]
    return tuple(folder + os.sep for folder in (*libraries, str(Path(__file__).parents[1])))
