"""Nodes that read from no other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autopipe.functions.function import Function
from autopipe.pipeline.ir._base import Node, Source

__all__ = ["Generator", "Opaque", "RandomNumbers", "Range", "Saved", "SharedCache", "TensorSlices", "Tensors"]


@dataclass(frozen=True, kw_only=True)
class Tensors(Source):
    """``Dataset.from_tensors``: one element."""

    components: tuple[Any, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class TensorSlices(Source):
    """``Dataset.from_tensor_slices``: one element per row."""

    components: tuple[Any, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Range(Source):
    """``Dataset.range``."""

    start: int
    stop: int
    step: int


@dataclass(frozen=True, kw_only=True)
class RandomNumbers(Source):
    """``Dataset.random``, where every repetition gives the same numbers again.

    Attributes:
        seeded: whether all datasets over it give the same.
    """

    seeded: bool


@dataclass(frozen=True, kw_only=True)
class Generator(Source):
    """``Dataset.from_generator``: Python code that runs again for every iterator.

    Attributes:
        fn: the function that makes the dataset.
    """

    fn: Function


@dataclass(frozen=True, kw_only=True)
class Saved(Source):
    """``Dataset.load``: the elements that ``Dataset.save`` wrote into a folder.

    Attributes:
        path: the folder.
        fn: the function that puts those of several files in order.
    """

    path: str
    fn: Function


@dataclass(frozen=True, kw_only=True)
class Opaque(Source):
    """A transformation autopipe does not read. It and all upstream of it stay as they are.

    Attributes:
        label: the name of its class in TensorFlow.
        reason: why it was not read.
        functions: the functions that it and all stages upstream call.
        classes: its class and those of all stages upstream, by their names in TensorFlow.
        inside: the pipeline it was made of, if it keeps one order, or one draw, for good.
    """

    label: str
    reason: str
    functions: tuple[Function, ...] = field(default=(), compare=False, repr=False)
    classes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    inside: Node | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class SharedCache(Opaque):
    """A memory cache that is left to its author: other datasets may read what the one that filled it drew.

    Attributes:
        inside: the cache.
    """

    inside: Node = field(compare=False, repr=False)
