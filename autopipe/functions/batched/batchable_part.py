"""Where to cut a function so that what follows the cut can be done for a whole batch at once.

Before the cut stays what must run for each element by itself: draws, file reads, decoding, tensors whose shape is not
known. Everything after it that has a batched form goes into one call per batch.
"""

from __future__ import annotations

from typing import Any

from autopipe.functions.analysis.effects import ops_with_effects
from autopipe.functions.batched.batched_ops import op_has_batched_form
from autopipe.functions.batched.vectorize import NotVectorizableError, vectorize
from autopipe.functions.cheaper.compiled import is_compiled
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.parts.ending import cut_before_ending, decided_by_elements, takes_one_shape

__all__ = ["split_batchable_part"]

# At most this many attempts; each moves more ops before the cut.
_MOST_ATTEMPTS = 8


@remembered
def split_batchable_part(fn: Function, batch_size: int | None) -> tuple[Function, Function, Function] | None:
    """Return the part of a function that elements need one by one, the rest of it, and that rest for a batch.

    Args:
        fn: a traced function that cannot be vectorized as a whole.
        batch_size: as :func:`~autopipe.functions.batched.vectorize.vectorize` takes it.

    Returns:
        ``None`` if no part of the function that does any work can be done by the batch.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def augment(x):
    ...     return x * 2.0 + tf.random.uniform(())
    >>> first, rest, batched = split_batchable_part(function_of(tf.data.Dataset.from_tensors([1.0]).map(augment)), None)
    >>> len(first.output_spec), [shape.rank for shape in rest.element_shapes], batched.output_spec.shape.as_list()
    (2, [1], [None, 1])
    """
    if is_compiled(fn):
        return None
    of_elements = decided_by_elements(fn)
    one_by_one = _kept_from_batches(fn, of_elements)
    for _ in range(_MOST_ATTEMPTS):
        cut = cut_before_ending(fn, of_elements, one_by_one)
        if not cut:
            return None
        try:
            first, rest = split(fn, cut)
            return first, rest, vectorize(rest, batch_size)
        except IllegalCutError:
            return None
        except NotVectorizableError as refused:
            hindrance = {op for op in of_elements if op.type == refused.op_type}
            if hindrance <= one_by_one:
                return None
            # If one op is refused, others without a batched form would be, too, each at the price of a trace.
            one_by_one |= hindrance | {op for op in of_elements if not op_has_batched_form(op.type)}
    return None


def _kept_from_batches(fn: Function, of_elements: set[Any]) -> set[Any]:
    """Return the ops that have an effect, or operands or results whose shape may differ between elements."""
    changing = {op for op in of_elements if not takes_one_shape(op, of_elements)}
    return changing | ops_with_effects(fn)
