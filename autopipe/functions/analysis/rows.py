"""Whether a function of a batch treats each row alike, whatever the other rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import described
from autopipe.functions.analysis.row_flows import ALIKE, ROWS, Flow
from autopipe.functions.analysis.row_ops import flows_through
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import CALLS, called_graphs, needed_ops

__all__ = ["tensors_of_rows", "who_mixes_rows"]

# Ops with which TensorFlow checks a condition and raises, without a result that another op uses.
_CHECKS = frozenset({"Assert", "If", "StatelessIf"})


@remembered
def who_mixes_rows(fn: Function) -> str | None:
    """Return what may make the result for a row depend on other rows of its batch; ``None`` if nothing does.

    Args:
        fn: a function of a batch, with the rows along the first axis of every tensor.

    Returns:
        The op, and where its author wrote it; or which result has no rows.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def mixing(function):
    ...     return who_mixes_rows(function_of(tf.data.Dataset.from_tensors(tf.ones([4, 3])).batch(2).map(function)))
    >>> mixing(lambda x: x / tf.reduce_max(x, axis=-1, keepdims=True))
    >>> mixing(lambda x: x / tf.reduce_max(x)).split()[0]
    'Max'
    """
    if fn.rows_apart:
        return None
    if not all(tensor.shape.rank for tensor in fn.element_inputs):
        return "an element that has no rows"
    parts = tf.nest.flatten(fn.output_spec)
    if not all(isinstance(part, tf.TensorSpec) for part in parts):
        return "a result that is not a plain tensor"
    graph = fn.concrete.graph
    flows = _flows_in(fn)
    checks = (op for op in graph.control_outputs if op.type in _CHECKS)
    of_many = next((op for op in checks if flows[id(op.inputs[0])] is None), None)
    if of_many is not None:
        return described(graph, of_many)
    if all(flows[id(tensor)] == ROWS for tensor in graph.outputs):
        return None
    ops = graph.get_operations()
    known = [tensor for op in ops for tensor in op.outputs if flows[id(tensor)] is not None]
    mixed = needed_ops(graph.outputs, known, waits=False)
    return next((described(graph, op) for op in ops if op in mixed), "a result that has no rows")


def tensors_of_rows(fn: Function) -> set[int]:
    """Return the ids of the tensors in a function of a batch that have the rows along their first axis."""
    return {tensor for tensor, flow in _flows_in(fn).items() if flow == ROWS}


def _flows_in(fn: Function) -> dict[int, Flow | None]:
    flows: dict[int, Flow | None] = {id(tensor): ROWS for tensor in fn.element_inputs}
    _follow(fn.concrete.graph, flows)
    return flows


def _follow(graph: Any, flows: dict[int, Flow | None]) -> None:
    """Add the flow of each tensor of a graph, given those of its inputs."""
    for op in graph.get_operations():
        if op.type == "Placeholder":
            flows.setdefault(id(op.outputs[0]), ALIKE)
            continue
        made = _flows(graph, op, [flows[id(tensor)] for tensor in op.inputs])
        flows.update((id(tensor), flow) for tensor, flow in zip(op.outputs, made, strict=True))


def _flows(graph: Any, op: Any, given: Sequence[Flow | None]) -> Sequence[Flow | None]:
    called = _called(graph, op, given) if op.type in CALLS else None
    return flows_through(op, given) if called is None else called


def _called(graph: Any, op: Any, given: Sequence[Flow | None]) -> list[Flow | None] | None:
    """Return the flows of the results of a function that an op calls; ``None`` if it cannot be inspected."""
    (body,) = called_graphs(graph, op)
    if body is None or len(body.inputs) != len(given):
        return None
    flows: dict[int, Flow | None] = {id(tensor): flow for tensor, flow in zip(body.inputs, given, strict=True)}
    _follow(body, flows)
    return [flows[id(tensor)] for tensor in body.outputs]
