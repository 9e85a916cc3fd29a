"""Which line of the user's file a stage was made in: where ``.map(...)`` or ``.batch(...)`` was called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.source import folders_of_libraries
from autopipe.pipeline import ir
from autopipe.pipeline.trees import called_by

__all__ = ["line_of_tracing", "noting_lines", "with_line"]

_LINE = "_autopipe_line"


@contextmanager
def noting_lines() -> Iterator[None]:
    """Note on every dataset made meanwhile which line of the user's code made it.

    TensorFlow keeps no trace of where a stage without a function was written, so its constructor is wrapped for as
    long as the user's code makes the pipeline.

    >>> import tensorflow as tf
    >>> with noting_lines():
    ...     dataset = tf.data.Dataset.range(3)
    >>> with_line(ir.Range(dataset=dataset, start=0, stop=3, step=1), dataset).line is not None
    True
    """
    constructor = tf.data.Dataset.__init__

    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        setattr(self, _LINE, _line_of_caller())
        constructor(self, *arguments, **named)

    tf.data.Dataset.__init__ = noting
    try:
        yield
    finally:
        tf.data.Dataset.__init__ = constructor


def with_line(node: ir.Node, dataset: Any) -> ir.Node:
    """Return the node of a dataset with the line it was made in, if that was noted or can be found.

    A function was traced in the call that made its stage, so its ops know the line.
    """
    if node.line is not None:
        return node
    noted = getattr(dataset, _LINE, None)
    if noted is not None:
        return replace(node, line=noted)
    # The functions of an opaque node may be those of any stage before it.
    functions = () if isinstance(node, ir.Opaque) else called_by(node)
    return replace(node, line=next((fn.traced_at for fn in functions if fn.traced_at), None))


def _line_of_caller() -> str | None:
    libraries = folders_of_libraries()
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    return None if frame is None else _shown(frame.f_code.co_filename, frame.f_lineno)


def line_of_tracing(concrete: Any) -> str | None:
    """Return the line that caused a function to be traced: its arguments were made there, before the function ran."""
    libraries = folders_of_libraries()
    made = next((op.traceback for op in concrete.graph.get_operations() if op.type == "Placeholder"), None)
    for frame in reversed(made or ()):
        if not frame.filename.startswith(libraries):
            return _shown(frame.filename, frame.lineno)
    return None


def _shown(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}"
