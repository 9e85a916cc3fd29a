"""Processes for trials, in which nothing has run yet."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

__all__ = ["fresh_processes"]


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
