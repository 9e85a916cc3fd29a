"""Work in a process of its own, where TensorFlow holds nothing yet of what ran before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from autopipe.quiet import load_tensorflow

__all__ = ["run_alone"]

_Result = TypeVar("_Result")


def run_alone(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Return what a function of a module returns, called in a fresh process, which may start others.

    Raises:
        Exception: what the function raises.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=load_tensorflow) as pool:
        return pool.submit(function, *arguments).result()
