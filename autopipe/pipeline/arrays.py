"""Values of elements as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_array"]


def as_array(value: Any) -> Any:
    r"""Return a value as an array; a string as an object: NumPy's own strings end before the zeros that they end with.

    >>> as_array(b"a\0").tolist(), as_array(2.5).dtype
    (b'a\x00', dtype('float64'))
    """
    return np.asarray(value, dtype=object if isinstance(value, bytes) else None)
