"""Arguments of public functions, checked against their law: the message says what it is, and what was received."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import Any

from autopipe.errors import ArgumentError

__all__ = ["MOST_SEED", "bytes_or_none", "file_to_write", "number", "seed_or_none", "whole_number"]

# NumPy's, which Optuna's samplers draw with.
MOST_SEED = 2**32 - 1


def whole_number(name: str, value: Any, least: int = 0, what: str = "whole number") -> int:
    """Return a whole number, of Python or of NumPy.

    Raises:
        ArgumentError: if it is none, or too small.

    >>> whole_number("trials", 3)
    3
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < least:
        raise ArgumentError(f"{name} must be a {what} >= {least}, but got {value!r}.")
    return found


def bytes_or_none(name: str, value: Any) -> int | None:
    """Return a number of bytes, or ``None``.

    Raises:
        ArgumentError: if it is neither.
    """
    return None if value is None else whole_number(name, value, what="number of bytes")


def seed_or_none(name: str, value: Any) -> int | None:
    """Return a seed of a sampler, or ``None``.

    Raises:
        ArgumentError: if it is neither, or one that NumPy does not take.

    >>> seed_or_none("seed", 3)
    3
    """
    if value is None:
        return None
    found = whole_number(name, value)
    if found > MOST_SEED:
        raise ArgumentError(f"{name} must be a whole number <= {MOST_SEED}, but got {value!r}.")
    return found


def number(name: str, value: Any, least: float = 0.0, *, above: bool = False, finite: bool = False) -> float:
    """Return a number that is not below ``least``, or is above it.

    Raises:
        ArgumentError: if it is none, too small, or may not be without end.

    >>> number("seconds", 0.5, above=True)
    0.5
    """
    try:
        found = math.nan if isinstance(value, bool | str) else float(value)
    except (OverflowError, TypeError, ValueError):
        found = math.nan
    if not (found > least if above else found >= least) or (finite and math.isinf(found)):
        kind = "finite number" if finite else "number"
        raise ArgumentError(f"{name} must be a {kind} {'>' if above else '>='} {least:g}, but got {value!r}.")
    return found


def file_to_write(name: str, value: Any) -> Path:
    """Return the path of a file that can be written.

    Raises:
        ArgumentError: if it is a folder, or in one that cannot be written to.
    """
    path = Path(value) if isinstance(value, str | os.PathLike) and os.fspath(value) else None
    if path is None or path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise ArgumentError(f"{name} must be a file in a folder that can be written to, but got {value!r}.")
    return path
