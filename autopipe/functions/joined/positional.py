"""What several pipelines make of the same position -> one function of the position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.subgraph import trace

__all__ = ["of_position"]


def of_position(values: Callable[[Any], Sequence[Any]], parts: Sequence[Function], output_spec: Any) -> Function:
    """Return the function that maps a position to the values there.

    Args:
        values: makes the flat tensors of the values from the tensor of a position.
        parts: the functions it calls, at least one; the new one gets the place of the last in the user's file.
        output_spec: the structure of its result: plain tensors, whose shapes may become more precise.

    >>> import tensorflow as tf
    >>> from autopipe.functions.joined.compose import run_whole
    >>> from autopipe.pipeline.extract import extract
    >>> square = extract(tf.data.Dataset.range(3).map(lambda x: x * x)).fn
    >>> fn = of_position(lambda at: [at, *run_whole(square, [at])], [square], (square.input_spec, square.output_spec))
    >>> [int(each) for each in fn.concrete(tf.constant(3, tf.int64))]
    [3, 9]
    """
    position = tf.TensorSpec([], tf.int64)
    names = " and ".join(dict.fromkeys(part.name for part in parts))
    last, *others = reversed(parts)
    return trace(values, [position], last, *others, name=names, input_spec=position, output_spec=output_spec)
