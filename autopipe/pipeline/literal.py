"""Arguments of stages as texts to compare."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["literal"]


def literal(value: Any) -> str:
    """Return a text that differs for different values, independent of NumPy's print options.

    >>> import numpy as np
    >>> literal((np.float32(0.5), b"x", 3)), literal(("a",))
    ("(float32[] 0000003f,b'x',3,)", "('a',)")
    """
    if isinstance(value, np.generic | np.ndarray) and value.dtype != object:
        return f"{value.dtype}{list(value.shape)} {value.tobytes().hex()}"
    if type(value) is tuple:
        return f"({''.join(f'{literal(each)},' for each in value)})"
    return repr(value)
