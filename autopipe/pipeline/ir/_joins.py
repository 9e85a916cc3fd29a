"""Nodes that read from several others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from autopipe.pipeline.ir._base import Node

__all__ = ["ChooseFrom", "Concatenate", "Zip"]


@dataclass(frozen=True, kw_only=True)
class Zip(Node):
    """``Dataset.zip``; ``structure`` is the nest the inputs stand in, with their positions as leaves."""

    parts: tuple[Node, ...]
    structure: Any = field(hash=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The zipped nodes, in the order of the flattened structure."""
        return self.parts

    def on(self, *inputs: Node) -> Self:
        """Return the same structure of other inputs."""
        return replace(self, parts=inputs)


@dataclass(frozen=True, kw_only=True)
class Concatenate(Node):
    """``Dataset.concatenate``."""

    first: Node
    second: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The node read first, then the other."""
        return (self.first, self.second)

    def on(self, *inputs: Node) -> Self:
        """Return the concatenation of other inputs."""
        first, second = inputs
        return replace(self, first=first, second=second)


@dataclass(frozen=True, kw_only=True)
class ChooseFrom(Node):
    """``Dataset.choose_from_datasets``; ``sample_from_datasets`` is one whose choices are drawn.

    Attributes:
        choices: gives the positions of the parts that elements are taken from, in turn.
        parts: the datasets they are taken from.
        stop_on_empty: whether it ends with the first part that ends; if not, the others go on.
        element_spec: the common type of the parts.
    """

    choices: Node
    parts: tuple[Node, ...]
    stop_on_empty: bool
    element_spec: Any = field(hash=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The choices, then the parts."""
        return (self.choices, *self.parts)

    def on(self, *inputs: Node) -> Self:
        """Return what other choices take from other parts."""
        choices, *parts = inputs
        return replace(self, choices=choices, parts=tuple(parts))
