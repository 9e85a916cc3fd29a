"""Processes for trials, in which nothing has run yet."""

from __future__ import annotations

import multiprocessing
import os
import sys
from threading import Thread
from typing import Any

__all__ = ["end_with_parent", "fresh_processes"]


def fresh_processes() -> Any:
    """Return what starts a process of its own for each.

    They are forked from one that has imported TensorFlow and done nothing else; elsewhere than on Linux that is not
    safe, and each imports it.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autopipe.tuning.offline.forked_from"])
    return context


def end_with_parent() -> None:
    """Have this process end as soon as the one that started it has: a killed process ends no others.

    >>> end_with_parent()
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), name="autopipe-parent", daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)
