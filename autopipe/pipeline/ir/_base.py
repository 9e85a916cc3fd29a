"""What every node is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

__all__ = ["ALL_ELEMENTS", "AUTOTUNE", "End", "Node", "Source", "Unary"]

AUTOTUNE = -1
# The buffer size of a shuffle that holds all elements, however many.
ALL_ELEMENTS = -2


@dataclass(frozen=True, kw_only=True)
class Node:
    """One transformation.

    Attributes:
        name: the ``name=`` the user gave it.
        line: where the user wrote it, as ``file.py:12``, if that is known; it does not affect equality.
    """

    name: str | None = None
    line: str | None = field(default=None, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one reads from, in order."""
        return ()

    @property
    def is_parallel(self) -> bool:
        """Whether it makes, or reads, several elements at once."""
        at_once = (getattr(self, name, None) for name in ("num_parallel_calls", "num_parallel_reads"))
        return any(number is not None for number in at_once)

    def on(self, *inputs: Node) -> Self:
        """Return the same transformation on other inputs."""
        if inputs:
            raise TypeError(f"{type(self).__name__} reads from no other node, but got {len(inputs)}.")
        return self


@dataclass(frozen=True, kw_only=True)
class Source(Node):
    """A node that reads from no other: the live dataset itself."""

    dataset: Any


@dataclass(frozen=True, kw_only=True)
class Unary(Node):
    """A transformation of one dataset."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one node this one reads from."""
        return (self.input,)

    def on(self, *inputs: Node) -> Self:
        """Return the same transformation on another input."""
        (only,) = inputs
        return replace(self, input=only)


@dataclass(frozen=True, kw_only=True)
class End(Unary):
    """Where the consumer reads. It stands above the last transformation while rules look at the tree."""
