"""The predicate of a filter, evaluated before the map ahead of it."""

from __future__ import annotations

from typing import Any

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import copy_into_trace, needed_ops, specs, stand_ins, trace

__all__ = ["ask_before"]


@remembered
def ask_before(predicate: Function, fn: Function) -> Function:
    """Return the predicate of the results of ``fn`` as a function of its inputs.

    It has only the part of ``fn`` that the predicate looks at, which is nothing if ``fn`` passes that through. It does
    not have the assertions of ``fn``: the caller must make sure that no error is lost.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> pairs = tf.data.Dataset.from_tensor_slices(([1.0, 4.0], [0, 1]))
    >>> node = extract(pairs.map(lambda x, label: (tf.sqrt(x), label)).filter(lambda x, label: label > 0))
    >>> asked = ask_before(node.predicate, node.input.fn)
    >>> any(op.type == "Sqrt" for op in asked.concrete.graph.get_operations())
    False
    """
    graph, above = fn.concrete.graph, predicate.concrete.graph
    looked_at = needed_ops([*above.outputs, *above.control_outputs])
    places = [place for place, tensor in enumerate(predicate.element_inputs) if tensor.op in looked_at]

    def asked(*tensors: Any) -> list[Any]:
        known = stand_ins(fn.element_inputs, tensors)
        made = copy_into_trace(graph, [fn.concrete.outputs[place] for place in places], known)
        seen = stand_ins([predicate.element_inputs[place] for place in places], made)
        return copy_into_trace(above, above.outputs, seen, also=above.control_outputs)

    return trace(
        asked,
        specs(fn.element_inputs),
        predicate,
        fn,
        name=predicate.name,
        input_spec=fn.input_spec,
        output_spec=predicate.output_spec,
    )
