"""Whether two elements are the same, bit by bit or up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.pipeline.arrays import as_array

__all__ = ["difference"]

# Rounding of one float32 operation is 2**-24 relative; a chain of tens of them stays well within this.
_RELATIVE_TOLERANCE = 1e-4
_ROUNDING_OF_LARGEST = 1e-5


def difference(left: Any, right: Any, exact: bool) -> str | None:
    """Return how two elements differ; ``None`` if they do not.

    Args:
        left: an element.
        right: another one of the same structure.
        exact: whether a difference by rounding counts.

    >>> difference(([1.0],), ([1.0000001],), exact=False) is None
    True
    >>> difference([1, 2], [1, 3], exact=False)
    'values differ'
    """
    sides = (tf.nest.flatten(side, expand_composites=True) for side in (left, right))
    for ours, theirs in zip(*sides, strict=True):
        old, new = map(_array, (ours, theirs))
        if old.shape != new.shape:
            return f"shape {old.shape} became {new.shape}"
        if not (_have_same_bits(old, new) if exact else (old == new).all() or _is_rounding(old, new)):
            return "values differ"
    return None


def _array(part: Any) -> Any:
    """Return a part of an element as an array; TensorFlow returns none for a scalar of a type that NumPy lacks."""
    return as_array(part.numpy() if hasattr(part, "numpy") else part)


def _have_same_bits(old: Any, new: Any) -> bool:
    """Return whether two arrays are the same bit by bit; all NaNs count as the same."""
    if old.dtype == object or old.dtype != new.dtype:
        return bool((old == new).all())
    if old.tobytes() == new.tobytes() or not np.issubdtype(old.dtype, np.inexact):
        return bool(old.tobytes() == new.tobytes())
    parts = (np.ascontiguousarray(side).view(side.real.dtype) for side in (old, new))
    left, right = (np.where(np.isnan(each), np.nan, each).tobytes() for each in parts)
    return bool(left == right)


def _is_rounding(old: Any, new: Any) -> bool:
    """Return whether two arrays differ at most by rounding: relative to each number, or near zero to the largest."""
    if not np.issubdtype(old.dtype, np.inexact):
        return False
    finite = np.abs(old[np.isfinite(old)])
    largest = float(finite.max()) if finite.size else 0.0
    near_zero = max(_ROUNDING_OF_LARGEST * largest, 1e-6)
    return bool(np.allclose(old, new, rtol=_RELATIVE_TOLERANCE, atol=near_zero, equal_nan=True))
