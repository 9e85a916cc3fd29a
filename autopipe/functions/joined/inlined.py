"""A function with the bodies of the ``tf.function`` it calls in place of the calls.

Rules cannot see inside a call. TensorFlow inlines calls itself before it runs a function, which is too late for the
rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.regrouped import regrouped
from autopipe.functions.subgraph import CALLS, MUST_COMPILE, called_graphs, copy_into_trace, stand_ins
from autopipe.functions.swapped import Swap, Swaps, find_swaps, with_swaps

__all__ = ["inlined"]


@remembered
def inlined(fn: Function) -> Function:
    """Return the same function without calls.

    It is the function itself if it has no calls, if it may have side effects, or if sums and products on both sides of
    a call would be regrouped.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> plus_one = tf.function(lambda x: x + 1)
    >>> fn = function_of(tf.data.Dataset.range(3).map(lambda x: plus_one(x) * 2))
    >>> [op.type for op in fn.concrete.graph.get_operations() if op.type in ("AddV2", "Mul", "PartitionedCall")]
    ['AddV2', 'Mul']
    """
    swaps = find_swaps(fn.concrete.graph, _body_of)
    if not swaps or effects(fn).has_side_effects:
        return fn
    concrete = with_swaps(fn, swaps, fn.name).concrete
    before, after = (regrouped(each.graph, across_calls=False) for each in (fn.concrete, concrete))
    return replace(fn, concrete=concrete) if before == after else fn


def _body_of(op: Any) -> Swap | None:
    """Return a swap that computes the results of a call in its place."""
    if op.type not in CALLS or not op.outputs or not _is_plain(op):
        return None
    (body,) = called_graphs(op.graph, op)
    if body is None:
        return None
    inner = find_swaps(body, _body_of)
    return lambda *given: _inline(body, inner, given)


def _is_plain(call: Any) -> bool:
    """Return whether a call runs like the ops around it: not compiled, and not on another device or executor."""
    return not (call.node_def.attr[MUST_COMPILE].b or call.device or call.get_attr("executor_type"))


def _inline(body: Any, inner: Swaps, given: Sequence[Any]) -> list[Any]:
    known = stand_ins(body.inputs, given)
    made = copy_into_trace(body, body.outputs, known, also=body.control_outputs, replace=inner)
    passed = {id(each) for each in given}
    return [tf.identity(each) if id(each) in passed else each for each in made]
