"""Two functions that run one after the other -> one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopipe.functions.analysis.ranges import know_length
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import copy_into_trace, specs, stand_ins, trace

__all__ = ["compose", "run_whole"]


@remembered
def compose(first: Function, then: Function) -> Function:
    """Return the function that maps an element as ``first``, then ``then``.

    Captures of both stay live. Any structure passes through, since both take and give flat tensors.

    Args:
        first: what runs on the element.
        then: what runs on the result; it takes what ``first`` gives.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> then = extract(tf.data.Dataset.range(1).map(lambda x: x + 1).map(lambda x: x * 10))
    >>> int(compose(then.input.fn, then.fn).concrete(tf.constant(4, tf.int64))[0])
    50
    """

    def both(*tensors: Any) -> list[Any]:
        return run_whole(then, run_whole(first, tensors))

    return trace(
        both,
        specs(first.element_inputs),
        first,
        then,
        name=f"{first.name} then {then.name}",
        input_spec=first.input_spec,
        output_spec=then.output_spec,
    )


def run_whole(fn: Function, tensors: Sequence[Any]) -> list[Any]:
    """Copy a whole function into the one being traced, and return its results there.

    Args:
        fn: the function.
        tensors: its inputs there.
    """
    graph = fn.concrete.graph
    known = stand_ins(fn.element_inputs, tensors)
    return copy_into_trace(graph, graph.outputs, known, also=graph.control_outputs, on_copy=know_length)
