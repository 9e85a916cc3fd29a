"""Processes for trials, in which nothing has run yet."""

from __future__ import annotations

import multiprocessing
import os
import sys
from threading import Thread
from typing import Any

__all__ = ["end_with_parent", "fresh_processes"]


def fresh_processes() -> Any:
    """Return a context that starts fresh processes.

    They are forked from one that has imported TensorFlow and done nothing else. That is safe only on Linux; elsewhere
    each process imports it.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autopipe.tuning.offline.forked_from"])
    return context


def end_with_parent() -> None:
    """Make this process end as soon as its parent has: a killed process does not end its children.

    >>> end_with_parent()
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), name="autopipe-parent", daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)
