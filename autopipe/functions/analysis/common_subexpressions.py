"""Common subexpressions: ops of a function that do again what one before them did."""

from __future__ import annotations

from typing import Any, NamedTuple

from autopipe.functions.analysis.effects import ops_that_change
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.regrouped import joined_ops
from autopipe.functions.subgraph import copy_into_trace, needed_ops, origin, specs, stand_ins, trace

__all__ = ["ComputedOnce", "computed_once"]

# A tensor of such a type may refer to something else each time.
_REFERRING = ("resource", "variant")
_PASSING = ("Identity", "Placeholder")


class ComputedOnce(NamedTuple):
    """A function that does nothing twice.

    Attributes:
        fn: it gives the same results as the original function.
        shared: the ops of the original function whose results are used twice.
        rounds_alike: whether the results are the same to the last bit, since no chain of sums or products is affected.
    """

    fn: Function
    shared: tuple[Any, ...]
    rounds_alike: bool


@remembered
def computed_once(fn: Function) -> ComputedOnce:
    """Return the same function without ops that repeat an earlier one on the same operands.

    Ops that draw, or depend on what may change, all stay.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> twice = extract(tf.data.Dataset.range(3).map(lambda x: (tf.square(x) + 1, tf.square(x) + 2))).fn
    >>> [op.type for op in computed_once(twice).shared]
    ['Square']
    >>> [op.type for op in computed_once(twice).fn.concrete.graph.get_operations()].count("Square")
    1
    """
    graph = fn.concrete.graph
    same = _same(fn)
    shared = tuple(dict.fromkeys(same.values()))
    if not shared:
        return ComputedOnce(fn, (), True)

    def only_once(*tensors: Any) -> list[Any]:
        known = stand_ins(fn.element_inputs, tensors)
        return copy_into_trace(graph, graph.outputs, known, also=graph.control_outputs, same=same)

    inputs = specs(fn.element_inputs)
    made = trace(only_once, inputs, fn, name=fn.name, input_spec=fn.input_spec, output_spec=fn.output_spec)
    return ComputedOnce(made, shared, not joined_ops(graph) & {*same, *shared})


def _same(fn: Function) -> dict[Any, Any]:
    """Return the ops that repeat an earlier one, each with the first such op."""
    graph = fn.concrete.graph
    needed = needed_ops([*graph.outputs, *graph.control_outputs])
    changing = ops_that_change(fn)
    first: dict[Any, Any] = {}
    same: dict[Any, Any] = {}
    for op in graph.get_operations():
        if op not in needed or op in changing or op.type in _PASSING or any(map(_refers, op.outputs)):
            continue
        known = first.setdefault(_what_it_does(op, same, changing), op)
        if known is not op:
            same[op] = known
    return same


def _refers(tensor: Any) -> bool:
    return tensor.dtype.name in _REFERRING


def _what_it_does(op: Any, same: dict[Any, Any], changing: set[Any]) -> tuple[Any, ...]:
    """Return a key that differs for ops that do something else.

    Waiting for ops that compute or check does not count: TensorFlow makes every check wait for the one written before.
    """
    attributes = sorted((name, value.SerializeToString(deterministic=True)) for name, value in op.node_def.attr.items())
    given = map(origin, op.inputs)
    inputs = tuple((id(same.get(tensor.op, tensor.op)), tensor.value_index) for tensor in given)
    waits = frozenset(id(each) for each in op.control_inputs if each in changing)
    return op.type, op.device, tuple(attributes), inputs, waits
