"""Errors that are lost if one function does the work of several, without computing unused results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autopipe.functions.analysis.failures import ops_that_may_fail
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import needed_ops

__all__ = ["loses_errors", "losing_errors", "places_needed"]


def losing_errors(functions: Sequence[Function]) -> tuple[Function, ...]:
    """Return the functions whose errors are lost if functions that run one after the other become one.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> pairs = tf.data.Dataset.range(3).map(lambda x: (x, 6 // x))
    >>> chosen = [extract(pairs.map(then)) for then in (lambda x, quotient: x, lambda x, quotient: quotient)]
    >>> [len(losing_errors([node.input.fn, node.fn])) for node in chosen]
    [1, 0]
    """
    losing = []
    places = tuple(range(len(functions[-1].concrete.outputs))) if functions else ()
    for fn in reversed(functions):
        if loses_errors(fn, places):
            losing.append(fn)
        places = places_needed(fn, places)
    return tuple(reversed(losing))


@remembered
def loses_errors(fn: Function, places: tuple[int, ...]) -> bool:
    """Return whether some op that may fail is not needed for the results of a function that are asked for.

    Args:
        fn: the function.
        places: which of its flat results are asked for.
    """
    unasked = _needed(fn, range(len(fn.concrete.outputs))) - _needed(fn, places)
    return bool(unasked and unasked & ops_that_may_fail(fn))


def places_needed(fn: Function, places: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of its flat inputs a function needs for some of its results."""
    needed = _needed(fn, places)
    return tuple(place for place, tensor in enumerate(fn.element_inputs) if tensor.op in needed)


def _needed(fn: Function, places: Iterable[int]) -> set[Any]:
    graph = fn.concrete.graph
    return needed_ops([*(graph.outputs[place] for place in places), *graph.control_outputs])
