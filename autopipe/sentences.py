"""What errors say, as one sentence of a message."""

from __future__ import annotations

import re

__all__ = ["one_sentence"]

_IN_FUNCTION = re.compile(r"Error in user-defined function passed to \S+ transformation with iterator: \S+: ")


def one_sentence(error: BaseException) -> str:
    """Return the first line of an error, without the dataset, the op and the graph that TensorFlow says it of.

    >>> one_sentence(OSError("disk full")), one_sentence(ValueError())
    ('disk full.', 'ValueError.')
    """
    lines = str(getattr(error, "message", None) or error).strip().splitlines()
    first = _IN_FUNCTION.sub("", lines[0]) if lines else ""
    said = first.rsplit("}} ", 1)[-1].split(" [Op:")[0].rstrip(": ") or type(error).__name__
    return said if said.endswith((".", "!", "?")) else f"{said}."
