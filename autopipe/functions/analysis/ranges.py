"""Ranges that have the same length for every element, wherever they begin."""

from __future__ import annotations

import operator
from typing import Any

from autopipe.functions.subgraph import constant, origin

__all__ = ["know_length", "known_length"]

_SUMS = ("Add", "AddV2")
_ARITHMETIC = {"Add": operator.add, "AddV2": operator.add, "Mul": operator.mul, "Sub": operator.sub}


def known_length(op: Any) -> int | None:
    """Return the length of a ``Range`` op if its end is its start plus a constant; otherwise ``None``.

    >>> import tensorflow as tf
    >>> graph = tf.function(lambda at: tf.range(at * 2, at * 2 + 7, 3)).get_concrete_function(tf.TensorSpec([])).graph
    >>> [known_length(op) for op in graph.get_operations() if op.type == "Range"]
    [None]
    >>> at = tf.TensorSpec([], tf.int64)
    >>> graph = tf.function(lambda at: tf.range(at * 2, at * 2 + 7, 3)).get_concrete_function(at).graph
    >>> [known_length(op) for op in graph.get_operations() if op.type == "Range"]
    [3]
    """
    start, limit, delta = op.inputs
    step, last = _constant(delta), origin(limit).op
    if not start.dtype.is_integer or not step or last.type not in _SUMS:
        return None
    for base, added in (last.inputs, reversed(last.inputs)):
        behind = _constant(added)
        if behind is not None and _is_same_value(base, start):
            length = -(-int(behind) // int(step))
            return length if length >= 0 else None
    return None


def know_length(op: Any) -> None:
    """Set the shape of the result of a new op if it is a range of known length."""
    if op.type == "Range" and (length := known_length(op)) is not None:
        op.outputs[0].set_shape([length])


def _constant(tensor: Any) -> Any | None:
    """Return the value of a tensor that is computed from constants; ``None`` if it is not, or by other arithmetic."""
    tensor = origin(tensor)
    if tensor.op.type not in _ARITHMETIC:
        return constant(tensor)
    values = [_constant(each) for each in tensor.op.inputs]
    return None if any(value is None for value in values) else _ARITHMETIC[tensor.op.type](*values)


def _is_same_value(left: Any, right: Any) -> bool:
    """Return whether two tensors are computed alike, by ops without state, from the same."""
    left, right = origin(left), origin(right)
    if left is right:
        return True
    one, other = left.op, right.op
    if one.type != other.type or one.type == "Placeholder" or one.op_def.is_stateful:
        return False
    alike = dict(one.node_def.attr) == dict(other.node_def.attr) and left.value_index == right.value_index
    return alike and all(map(_is_same_value, one.inputs, other.inputs))
