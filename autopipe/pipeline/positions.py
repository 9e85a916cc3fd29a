"""Stages that pick elements by their position and never look at them, and sources that are known by position."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature

__all__ = ["Columns", "below_positions", "columns", "range_of"]

_PICKING = ir.Options | ir.Prefetch | ir.Repeat | ir.Shard | ir.Shuffle | ir.Skip | ir.Take

Columns = tuple[Callable[[Any], Any], ...]
"""For each flat component of the elements, a function from positions (of any shape) to the values there."""


def below_positions(node: ir.Node) -> ir.Node:
    """Return the last stage upstream that does more than pick elements by their position.

    Over another input of as many elements, the stages after it pick the same positions, also with a seed.
    """
    return trees.past(node, _PICKING)


def range_of(count: int, name: str | None = None) -> ir.Range:
    """Return the positions 0 to ``count`` - 1 as a pipeline."""
    return ir.Range(dataset=tf.data.Dataset.range(count, name=name), start=0, stop=count, step=1, name=name)


def columns(node: ir.Node) -> Columns | None:
    """Return functions that look up elements in memory by position; ``None`` for other elements.

    The arrays are looked up live and never copied.

    Args:
        node: dense arrays or a range, a ``take`` or ``skip`` of them, or several of these zipped.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> (column,) = columns(extract(tf.data.Dataset.from_tensor_slices([5, 6, 7, 8]).skip(1)))
    >>> column(tf.constant([[2, 0]])).numpy().tolist()
    [[8, 6]]
    """
    match node:
        case ir.TensorSlices() if not any(array.dtype.name == "variant" for array in node.components):
            return tuple(_rows_of(array) for array in node.components)
        case ir.Range():
            return (_number_of(node),)
        case ir.Take():
            return columns(node.input)
        case ir.Skip():
            first = _count(node.input) - _count(node)
            below = columns(node.input)
            return None if below is None else tuple(_later(column, first) for column in below)
        case ir.Zip():
            sides = [columns(side) for side in node.inputs]
            known = [side for side in sides if side is not None]
            return tuple(chain.from_iterable(known)) if len(known) == len(sides) else None
    return None


def _count(node: ir.Node) -> int:
    return signature(node).cardinality


def _rows_of(array: Any) -> Callable[[Any], Any]:
    return lambda positions: tf.gather(array, positions)


def _number_of(node: ir.Range) -> Callable[[Any], Any]:
    kind = node.dataset.element_spec.dtype
    return lambda positions: tf.cast(node.start + node.step * positions, kind)


def _later(column: Callable[[Any], Any], first: int) -> Callable[[Any], Any]:
    return lambda positions: column(positions + first)
