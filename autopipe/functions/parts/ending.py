"""The end of a function: everything that can come after the ops that must stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import ops_with_effects
from autopipe.functions.function import Function
from autopipe.functions.subgraph import fed_by, needed_ops

__all__ = ["cut_before_ending", "decided_by_elements", "takes_one_shape"]

# Ops that compute nothing.
_NO_WORK = frozenset("Const Identity IdentityN NoOp Placeholder Reshape".split())


def decided_by_elements(fn: Function) -> set[Any]:
    """Return the ops whose results may differ between elements: by their operands, or by an effect."""
    effects = ops_with_effects(fn)
    given = [*fn.element_inputs, *(tensor for op in effects for tensor in op.outputs)]
    return fed_by(given) | effects | {tensor.op for tensor in fn.element_inputs}


def takes_one_shape(op: Any, of_elements: set[Any]) -> bool:
    """Return whether the operands and results of an op have the same shape for every element."""
    return all(map(_is_of_one_shape, (*_taken(op, of_elements), *op.outputs)))


def _taken(op: Any, of_elements: set[Any]) -> Iterator[Any]:
    return (tensor for tensor in op.inputs if tensor.op in of_elements)


def _is_of_one_shape(tensor: Any) -> bool:
    return bool(tensor.shape.is_fully_defined()) and tensor.dtype not in (tf.variant, tf.resource)


def cut_before_ending(fn: Function, of_elements: set[Any], stay: set[Any]) -> list[Any]:
    """Return the tensors to cut at once the given ops have run; empty if no work is left after them.

    Tensors that are the same for all elements are not cut: each side computes them itself.
    """
    graph = fn.concrete.graph
    used = needed_ops([*fn.concrete.outputs, *graph.control_outputs])
    done = needed_ops(stay & used) | {tensor.op for tensor in fn.element_inputs}
    rest = needed_ops(fn.concrete.outputs, waits=False) - done
    if all(op.type in _NO_WORK for op in rest & of_elements):
        return []
    made = (tensor for op in graph.get_operations() if op in done and op in of_elements for tensor in op.outputs)
    return [tensor for tensor in made if any(user in rest for user in tensor.consumers())]
