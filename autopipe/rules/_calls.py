"""The calls at once of a map that replaces others."""

from collections.abc import Collection

from autopipe.environment import processors
from autopipe.pipeline.ir import AUTOTUNE

__all__ = ["calls_of_both", "calls_on_batches", "no_fewer_calls"]


def calls_of_both(first: int | None, then: int | None) -> int | None:
    """Return the calls at once of a map that does the work of two; ``None`` if their authors chose different numbers.

    >>> calls_of_both(AUTOTUNE, 32), calls_of_both(4, 4)
    (32, 4)
    >>> calls_of_both(2, 8) is calls_of_both(None, AUTOTUNE) is None
    True
    """
    chosen = {first, then} - {AUTOTUNE}
    if len(chosen) > 1:
        return None
    return chosen.pop() if chosen else AUTOTUNE


def calls_on_batches(calls: int | None) -> int | None:
    """Return the calls at once on batches, given those on elements: the same number would hold too many batches.

    >>> calls_on_batches(32), calls_on_batches(1), calls_on_batches(None)
    (-1, 1, None)
    """
    return AUTOTUNE if calls is not None and calls > 1 else calls


def no_fewer_calls(calls: Collection[int]) -> int:
    """Return the calls at once of a map that replaces several: the most that any of them had.

    AUTOTUNE makes as many as there are processors.

    >>> no_fewer_calls([1, 10**6]), no_fewer_calls([AUTOTUNE, 1]), no_fewer_calls([AUTOTUNE, 10**6])
    (1000000, -1, 1000000)
    """
    most = max(calls)
    return most if AUTOTUNE not in calls or most > processors() else AUTOTUNE
