"""What the function inside a ``map``, ``filter`` or ``interleave`` is."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Function", "describe_callable"]


@dataclass(frozen=True, eq=False)
class Function:
    """A function that ``tf.data`` has traced, with the objects it captures still live.

    Two functions are equal when they are the same traced function: autopipe never compares what functions
    compute, and never copies one by value, since a copy would freeze the variables it captures.

    Attributes:
        concrete: the ``tf.types.experimental.ConcreteFunction``; flat tensors in, flat tensors out.
        input_spec: the structure of one element that goes in.
        output_spec: the structure of the result; a ``tf.data.DatasetSpec`` for ``flat_map`` and ``interleave``.
        element_types: the flat dtypes of the elements the transformation yields.
        element_shapes: the flat shapes of the same.
        name: the name the user gave it, such as ``load_image`` or ``<lambda>``.
        location: where the user wrote it, as ``file.py:12``; ``None`` when Python cannot tell.
        traced_at: the line of the user's code that made its stage and so traced it; ``None`` for one of autopipe's.
        rows_apart: whether it was made to do with each row of a batch what another function does with an element.
    """

    concrete: Any
    input_spec: Any
    output_spec: Any
    element_types: tuple[Any, ...]
    element_shapes: tuple[Any, ...]
    name: str = "<lambda>"
    location: str | None = None
    traced_at: str | None = None
    rows_apart: bool = False
    keeps_alive: tuple[Any, ...] = field(default=(), repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self.concrete is other.concrete

    def __hash__(self) -> int:
        return id(self.concrete)

    def __str__(self) -> str:
        return self.name

    @property
    def element_inputs(self) -> tuple[Any, ...]:
        """The symbolic tensors of the element, without those that carry captured objects."""
        captured = len(self.concrete.captured_inputs)
        inputs = tuple(self.concrete.inputs)
        return inputs[: len(inputs) - captured]


def describe_callable(function: Callable[..., Any]) -> tuple[str, str | None]:
    """Return the name of a callable and where it was written, as ``file.py:line``.

    >>> def load(path): ...
    >>> describe_callable(load)[0]
    'load'
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    code = getattr(function, "__code__", None)
    if code is None:
        return name, None
    return name, f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
