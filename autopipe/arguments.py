"""Arguments of public functions, checked against their law: the message says what it is, and what was received."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autopipe.errors import ArgumentError

__all__ = [
    "MEASURING_SECONDS",
    "MOST_SEED",
    "bytes_or_none",
    "file_to_write",
    "function",
    "is_truth",
    "number",
    "one_of",
    "seed_or_none",
    "whole_number",
    "yes_or_no",
]

# What optimize() may spend on running parts of a pipeline, by default.
MEASURING_SECONDS = 30.0
# NumPy's, which Optuna's samplers draw with.
MOST_SEED = 2**32 - 1
_MOST_BYTES = 2**63 - 1


def whole_number(name: str, value: Any, what: str = "whole number") -> int:
    """Return a whole number, of Python or of NumPy.

    Raises:
        ArgumentError: if it is not a whole number, or too small.

    >>> whole_number("trials", 3)
    3
    """
    try:
        found = None if is_truth(value) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < 0:
        raise ArgumentError(f"{name} must be a {what} >= 0, but got {value!r}.")
    return found


def is_truth(value: Any) -> bool:
    """Return whether a value is true or false; NumPy's of before 2.3 counts as a number too, with a warning.

    >>> is_truth(True), is_truth(1)
    (True, False)
    """
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """Return one of some names.

    Raises:
        ArgumentError: if it is none of them.

    >>> one_of("sampler", "tpe", ("tpe", "random"))
    'tpe'
    """
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise ArgumentError(f"{name} must be one of {', '.join(names)}, but got {value!r}.")
    return value


def yes_or_no(name: str, value: Any) -> bool:
    """Return whether something is asked for.

    Raises:
        ArgumentError: if it is neither ``True`` nor ``False``.
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, but got {value!r}.")
    return value


def function(name: str, value: Any, of: str) -> Any:
    """Return a function, or ``None``.

    Raises:
        ArgumentError: if it is neither.

    >>> function("on_trial", print, "a trial") is print
    True
    """
    if value is not None and not callable(value):
        raise ArgumentError(f"{name} must be a function of {of}, but got {value!r}.")
    return value


def bytes_or_none(name: str, value: Any) -> int | None:
    """Return a number of bytes, or ``None``.

    Raises:
        ArgumentError: if it is neither, or more than any machine has.

    >>> bytes_or_none("ram_budget", 8 * 2**30)
    8589934592
    """
    found = None if value is None else whole_number(name, value, what="number of bytes")
    if found is not None and found > _MOST_BYTES:
        raise ArgumentError(f"{name} must be a number of bytes <= 2**63 - 1, but got one of {found.bit_length()} bits.")
    return found


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
        ArgumentError: if it is not a number, too small, or infinite where that is not allowed.

    >>> number("seconds", 0.5, above=True)
    0.5
    """
    try:
        found = math.nan if isinstance(value, str) or is_truth(value) else float(value)
    except (OverflowError, TypeError, ValueError):
        found = math.nan
    if not (found > least if above else found >= least) or (finite and math.isinf(found)):
        kind = "finite number" if finite else "number"
        raise ArgumentError(f"{name} must be a {kind} {'>' if above else '>='} {least:g}, but got {value!r}.")
    return found


def file_to_write(name: str, value: Any) -> Path:
    """Return the path of a file that can be written, wherever the program goes meanwhile.

    Raises:
        ArgumentError: if it is a folder, or in one that cannot be written to.
    """
    given = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    path = Path(os.path.expanduser(given)) if isinstance(given, str) and given and "\0" not in given else None
    # Not Path.is_dir(), which raises where a name is too long.
    if path is None or os.path.isdir(path) or not os.access(path.absolute().parent, os.W_OK):
        raise ArgumentError(f"{name} must be a file in a folder that can be written to, but got {value!r}.")
    return path.absolute()
