"""Work in a process of its own, where TensorFlow holds nothing yet of what ran before."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from autopipe.quiet import load_tensorflow
from autopipe.tuning.offline.processes import fresh_processes

__all__ = ["run_alone"]

_Result = TypeVar("_Result")


def run_alone(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Return what a function of a module returns, called in a fresh process, which may start others.

    It ends with this process, however this one ends.

    Raises:
        Exception: what the function raises.
    """
    with ProcessPoolExecutor(1, mp_context=fresh_processes(), initializer=_begin) as pool:
        return pool.submit(function, *arguments).result()


def _begin() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_tensorflow()


def _end_with_parent() -> None:
    """Wait for a parent that is killed: what it asked for would go on beside whatever is measured next."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
