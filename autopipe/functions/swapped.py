"""A function in which some ops are replaced by others that give the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.subgraph import branches, copy_into_trace, specs, stand_ins, trace

__all__ = ["Swap", "Swaps", "find_swaps", "with_swaps"]

# A function that is called in place of an op: it takes its inputs and returns its outputs.
Swap = Callable[..., Sequence[Any]]
Swaps = Mapping[Any, Swap]

_BRANCHES = frozenset({"If", "StatelessIf"})


def with_swaps(fn: Function, swaps: Swaps, name: str) -> Function:
    """Return a function that does the same, with other ops in place of some.

    Args:
        fn: the function.
        swaps: what is called in place of each replaced op.
        name: the name of the function in reports.
    """
    graph = fn.concrete.graph

    def swapped(*tensors: Any) -> list[Any]:
        known = stand_ins(fn.element_inputs, tensors)
        return copy_into_trace(graph, graph.outputs, known, also=graph.control_outputs, replace=swaps)

    inputs = specs(fn.element_inputs)
    return trace(swapped, inputs, fn, name=name, input_spec=fn.input_spec, output_spec=fn.output_spec)


def find_swaps(graph: Any, find: Callable[[Any], Swap | None]) -> Swaps:
    """Return the swaps that ``find`` returns for the ops of a graph, including those in branches of a ``tf.cond``."""
    swaps: dict[Any, Swap] = {}
    for op in graph.get_operations():
        if op.type in _BRANCHES and op.outputs:
            bodies = branches(graph, op)
            inner = [{} if body is None else find_swaps(body, find) for body in bodies]
            if any(inner) and None not in bodies:
                swaps[op] = partial(_branching, bodies, inner)
        elif swap := find(op):
            swaps[op] = swap
    return swaps


def _branching(bodies: Sequence[Any], inner: Sequence[Swaps], condition: Any, *given: Any) -> Sequence[Any]:
    """Trace both branches anew."""

    def traced(body: Any, swaps: Swaps) -> Callable[[], list[Any]]:
        known = stand_ins(body.inputs, given)
        return lambda: copy_into_trace(body, body.outputs, known, also=body.control_outputs, replace=swaps)

    return list(tf.nest.flatten(tf.cond(condition, *map(traced, bodies, inner))))
