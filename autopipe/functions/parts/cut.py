"""One function -> two, whose composition it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import described, ops_with_effects
from autopipe.functions.function import Function
from autopipe.functions.memo import RefusalError
from autopipe.functions.subgraph import copy_into_trace, fed_by, needed_ops, specs, stand_ins, trace

__all__ = ["IllegalCutError", "split"]


class IllegalCutError(RefusalError):
    """A function cannot be cut at these tensors; the message says why."""


def split(fn: Function, cut: Sequence[Any], *, late: Sequence[Any] = ()) -> tuple[Function, Function]:
    """Return two functions that, run one after the other, give what the function gives.

    Args:
        fn: a traced function.
        cut: symbolic tensors of its graph, which the first function gives as a flat tuple and the second takes. They
            include the inputs that the second needs.
        late: inputs among these; ops that look at one of them and only have to run, as assertions, run in the second.

    Raises:
        IllegalCutError: if the second would need an input that is not cut, or both would run an op with a state.
    """
    _refuse_resources(cut)
    graph = fn.concrete.graph
    before, after, unawaited = _effects_by_side(fn, cut, late)
    done = needed_ops([*cut, *before], done=unawaited)
    remaining = needed_ops([*graph.outputs, *after], cut, done=done)
    _refuse_uncut_inputs(fn, remaining)
    _refuse_shared_state(fn, ops_with_effects(fn) & done & remaining)
    middle = specs(cut)

    def first(*tensors: Any) -> Sequence[Any]:
        known = stand_ins(fn.element_inputs, tensors)
        return copy_into_trace(graph, cut, known, also=before, done=unawaited)

    def then(*tensors: Any) -> Sequence[Any]:
        known = stand_ins(cut, tensors)
        return copy_into_trace(graph, graph.outputs, known, also=after, done=done)

    earlier = trace(
        first,
        specs(fn.element_inputs),
        fn,
        name=f"first part of {fn.name}",
        input_spec=fn.input_spec,
        output_spec=middle,
    )
    later = trace(
        then,
        middle,
        fn,
        name=f"rest of {fn.name.removeprefix('rest of ')}",
        input_spec=middle,
        output_spec=fn.output_spec,
    )
    return earlier, later


def _refuse_resources(cut: Sequence[Any]) -> None:
    if not cut:
        raise IllegalCutError("a stage must give at least one tensor")
    for tensor in cut:
        if tensor.dtype == tf.resource:
            raise IllegalCutError(f"{tensor.op.type} gives a handle, which no element can hold")


def _refuse_uncut_inputs(fn: Function, remaining: set[Any]) -> None:
    for tensor in fn.element_inputs:
        if tensor.op in remaining:
            raise IllegalCutError(f"the second part needs the input {tensor.op.name}, which is not cut")


def _refuse_shared_state(fn: Function, shared: set[Any]) -> None:
    for op in shared:
        raise IllegalCutError(f"both parts need what {described(fn.concrete.graph, op)} gives, and it must run once")


def _effects_by_side(
    fn: Function, cut: Sequence[Any], late_inputs: Sequence[Any]
) -> tuple[list[Any], list[Any], set[Any]]:
    """Return the ops that run for their effect, such as assertions: those of the first part, and those of the second.

    An op that no result depends on runs as early as possible, unless it looks at the late inputs. TensorFlow makes each
    assertion wait for the one written before it, and for what that waits for. The third result has the ops of the
    second part that the first need not wait for.
    """
    graph = fn.concrete.graph
    looking = fed_by(late_inputs)
    first = needed_ops(cut, done=looking - ops_with_effects(fn))
    second = needed_ops(graph.outputs, cut, waits=False) - first
    effects = second & ops_with_effects(fn)
    # A variable that the second part reads is assigned there, though no result depends on the assignment.
    handles = {tensor.op for op in effects for tensor in op.inputs if tensor.dtype == tf.resource}
    of_second = effects | handles | (second & fed_by(cut))
    before: list[Any] = []
    after: list[Any] = []
    for op in graph.control_outputs:
        late = op not in first and (op in looking or needed_ops([op], cut, waits=False) & of_second)
        (after if late else before).append(op)
    late = of_second | fed_by(tensor for op in of_second for tensor in op.outputs)
    return before, after, (late | looking) - first - ops_with_effects(fn)
