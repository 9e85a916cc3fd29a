"""Functions that take elements out of memory by their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function

__all__ = ["gather"]


def gather(columns: Sequence[Callable[[Any], Any]], positions: Any, output_spec: Any) -> Function:
    """Return the function that looks each column up at given positions.

    Args:
        columns: functions from positions to the values there.
        positions: the ``tf.TensorSpec`` of the positions it takes.
        output_spec: the structure of what it gives; its leaves are those of ``columns``.

    >>> import tensorflow as tf
    >>> letters = tf.constant(["a", "b", "c"])
    >>> spec = tf.TensorSpec([2], tf.string)
    >>> fn = gather([lambda at: tf.gather(letters, at)], tf.TensorSpec([2], tf.int64), spec)
    >>> fn.concrete(tf.constant([2, 0], tf.int64))[0].numpy().tolist()
    [b'c', b'a']
    """

    def look_up(at: Any) -> list[Any]:
        return [column(at) for column in columns]

    concrete = tf.function(look_up, autograph=False).get_concrete_function(positions)
    return Function(
        concrete=concrete,
        input_spec=positions,
        output_spec=output_spec,
        element_types=tuple(tensor.dtype for tensor in concrete.outputs),
        element_shapes=tuple(tensor.shape for tensor in concrete.outputs),
        name="gather",
    )
