"""Whether two pipelines, or two stages, are written alike."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.arrays import as_array

__all__ = ["alike", "same_arguments"]

# Fields that only say which of several equal datasets a node was read from, and what the user called it.
_IDENTITY = frozenset({"dataset", "name", "origin"})
# Larger arrays are not compared.
_MOST_BYTES = 2**28
# If rows differ at all, these nearly always do; taking all out of TensorFlow, above all texts, takes long.
_FIRST_ROWS = 16


def alike(first: ir.Node, second: ir.Node) -> bool:
    """Return whether two pipelines are made of equal stages that read equal elements, which need not be the same ones.

    Both then give the same sequence, unless something in them draws or keeps state. Functions must be the same objects,
    since what they compute is not compared.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> three, again = (extract(tf.data.Dataset.from_tensor_slices([1, 2]).shuffle(2, seed=3)) for _ in range(2))
    >>> other = extract(tf.data.Dataset.from_tensor_slices([1, 2]).shuffle(2, seed=4))
    >>> alike(three, again), alike(three, other)
    (True, False)
    """
    if first == second:
        return True
    if not same_arguments(first, second) or len(first.inputs) != len(second.inputs):
        return False
    match first, second:
        case (ir.TensorSlices() | ir.Tensors()) as one, (ir.TensorSlices() | ir.Tensors()) as other:
            types = one.dataset.element_spec == other.dataset.element_spec
            return types and all(map(_are_equal, one.components, other.components))
        case ir.Range(), ir.Range():
            return bool(first.dataset.element_spec == second.dataset.element_spec)
        case ir.Source(), _:
            return False
    return all(map(alike, first.inputs, second.inputs))


def same_arguments(first: ir.Node, second: ir.Node) -> bool:
    """Return whether two stages do the same with their inputs, whatever these are."""
    return type(first) is type(second) and _arguments(first) == _arguments(second)


def _arguments(node: ir.Node) -> dict[str, Any]:
    values = {each.name: getattr(node, each.name) for each in fields(node) if each.compare}
    return {name: value for name, value in values.items() if name not in _IDENTITY and not _holds_nodes(value)}


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, ir.Node) or (isinstance(value, tuple) and any(isinstance(each, ir.Node) for each in value))


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether two arrays hold the same bits; ``False`` if that would take long to find out."""
    if first is second:
        return True
    if first.dtype != second.dtype or first.shape != second.shape or first.dtype in (tf.resource, tf.variant):
        return False
    if first.dtype != tf.string and first.dtype.size * first.shape.num_elements() > _MOST_BYTES:
        return False
    few = slice(_FIRST_ROWS) if first.shape.rank else ...
    return _same_bits(first[few], second[few]) and _same_bits(first, second)


def _same_bits(first: Any, second: Any) -> bool:
    """Return whether all bits are equal: 0 differs from -0, and a NaN equals itself."""
    return np.array_equal(*(_bits(tensor.numpy()) for tensor in (first, second)))


def _bits(array: Any) -> Any:
    whole = as_array(array)
    return whole if whole.dtype == object else np.ascontiguousarray(whole).reshape(-1).view(np.uint8)
