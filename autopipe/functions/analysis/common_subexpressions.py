"""Common subexpressions: ops of a function that do again what one before them did."""

from __future__ import annotations

from typing import Any, NamedTuple

from autopipe.functions.analysis.effects import ops_that_change
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.regrouped import joined_ops
from autopipe.functions.subgraph import copy_into_trace, needed_ops, origin, specs, stand_ins, trace

__all__ = ["ComputedOnce", "computed_once"]

# What a tensor of such a kind refers to may be another thing each time.
_REFERRING = ("resource", "variant")
_PASSING = ("Identity", "Placeholder")


class ComputedOnce(NamedTuple):
    """A function that does nothing twice.

    Attributes:
        fn: it gives what the other gave.
        shared: the ops of the other function whose results serve twice.
        rounds_alike: whether that is so to the last bit, since no sum or product that goes on is among them.
    """

    fn: Function
    shared: tuple[Any, ...]
    rounds_alike: bool


@remembered
def computed_once(fn: Function) -> ComputedOnce:
    """Return the same function without ops that give what another one gives for the same.

    Those that draw, or depend on what may change, stay as often as they are.

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
    """Return the ops that give the same as one before them, each with the first that does."""
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
    """Return what tells an op from those that do something else.

    To wait for what computes, or checks, changes nothing: TensorFlow has every check wait for the one written before.
    """
    attributes = sorted((name, value.SerializeToString(deterministic=True)) for name, value in op.node_def.attr.items())
    given = map(origin, op.inputs)
    inputs = tuple((id(same.get(tensor.op, tensor.op)), tensor.value_index) for tensor in given)
    waits = frozenset(id(each) for each in op.control_inputs if each in changing)
    return op.type, op.device, tuple(attributes), inputs, waits
