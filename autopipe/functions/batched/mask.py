"""A filter of elements -> a function that drops rows of a batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.batched.vectorize import vectorize
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import specs, trace

__all__ = ["mask"]


@remembered
def mask(predicate: Function) -> Function:
    """Return the function that keeps the rows of a batch for which the predicate is true, in their order.

    Raises:
        NotVectorizableError: if the predicate has no batched form, or elements are not tensors of one known shape.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> node = extract(tf.data.Dataset.range(9).filter(lambda x: x > 2))
    >>> mask(node.predicate).concrete(tf.constant([5, 1, 7], tf.int64))[0].numpy().tolist()
    [5, 7]
    """
    batched = vectorize(predicate, None)

    def masked(*columns: Any) -> list[Any]:
        (passes,) = batched.concrete(*columns)
        kept = tf.where(passes)[:, 0]
        return [tf.gather(column, kept) for column in columns]

    inputs = specs(batched.element_inputs)
    spec = batched.input_spec
    return trace(masked, inputs, predicate, name=f"where {predicate.name}", input_spec=spec, output_spec=spec)
