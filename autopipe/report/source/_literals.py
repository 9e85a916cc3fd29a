"""Values as Python code."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["constant", "nest", "spec_text"]


def spec_text(spec: Any) -> str:
    """Return the type of an element, such as ``(uint8[32, 32, 3], int64[])``."""
    match spec:
        case dict():
            return f"{{{', '.join(f'{key!r}: {spec_text(each)}' for key, each in spec.items())}}}"
        case tuple():
            return _tuple([spec_text(each) for each in spec])
        case tf.TensorSpec():
            shape = "[...]" if spec.shape.rank is None else str([*spec.shape])
            return f"{spec.dtype.name}{shape}"
    return " ".join(str(spec).split())


def nest(structure: Any, parts: list[str]) -> str:
    """Return the nest of variables that stand in a structure by their positions."""
    if isinstance(structure, dict):
        return f"{{{', '.join(f'{key!r}: {nest(each, parts)}' for key, each in structure.items())}}}"
    if isinstance(structure, tuple):
        return _tuple([nest(each, parts) for each in structure])
    return parts[int(structure)]


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def constant(value: Any, kind: str) -> str:
    """Return a tensor of one number or text.

    >>> constant(2, "int64"), constant(b"a", "string")
    ('tf.constant(2, tf.int64)', "tf.constant(b'a', tf.string)")
    """
    plain = value.item() if hasattr(value, "item") else value
    text = f"float('{plain}')" if isinstance(plain, float) else repr(plain)
    return f"tf.constant({text}, tf.{kind})"
