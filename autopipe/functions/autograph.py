"""Functions that AutoGraph leaves as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

__all__ = ["without_autograph"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def without_autograph(function: _Function) -> _Function:
    """Return a function that AutoGraph skips: there is nothing to convert, so it would only take time."""
    left: _Function = tf.autograph.experimental.do_not_convert(function)
    return left
