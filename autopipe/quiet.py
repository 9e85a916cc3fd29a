"""Loading TensorFlow without the notices it prints."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

__all__ = ["load_tensorflow"]

_SILENT = "3"


def load_tensorflow() -> None:
    """Import TensorFlow without its notices, unless ``TF_CPP_MIN_LOG_LEVEL`` asks for them.

    Raises:
        ImportError: if TensorFlow cannot be loaded; what it printed is shown then.
    """
    # Without an error output there is nothing to keep clean.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _SILENT) != _SILENT or sys.stderr is None:
        with _without_garbage_collection():
            import_module("tensorflow")
        return
    # TensorFlow 2.21 writes some lines before it has read the level, straight to the file descriptor.
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            with _without_garbage_collection():
                import_module("tensorflow")
        except BaseException:
            os.dup2(shown, 2)
            printed.seek(0)
            with open(2, "wb", closefd=False) as stderr:
                shutil.copyfileobj(printed, stderr)
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Import without a search for garbage every now and then: what is imported stays, and is not searched later."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # The first search after it would take 0.4 s.
        gc.freeze()
        if collects:
            gc.enable()
