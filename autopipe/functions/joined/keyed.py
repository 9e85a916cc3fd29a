"""Grouping elements by a key that is stored beside each of them, in place of a function that computes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import origin, specs, trace

__all__ = ["is_stored", "on_keyed", "stored_key", "with_key"]


def is_stored(key: Function) -> bool:
    """Return whether a key is a component of the element as it is.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9).map(lambda x: (x, x % 2))
    >>> keys = (lambda x, odd: odd), (lambda x, odd: x % 3)
    >>> [is_stored(extract(numbers.group_by_window(key, lambda _, w: w, window_size=2)).key_func) for key in keys]
    [True, False]
    """
    (result,) = key.concrete.outputs
    return any(origin(result) is each for each in key.element_inputs)


@remembered
def with_key(key: Function) -> Function:
    """Return the function that maps an element to the pair of it and its key."""

    def pair(*element: Any) -> list[Any]:
        return [*element, *run_whole(key, element)]

    spec = (key.input_spec, key.output_spec)
    inputs = specs(key.element_inputs)
    return trace(pair, inputs, key, name="with its key", input_spec=key.input_spec, output_spec=spec)


@remembered
def stored_key(key: Function) -> Function:
    """Return the function that takes the key out of such a pair."""
    inputs = (*specs(key.element_inputs), *specs(key.concrete.outputs))
    spec = (key.input_spec, key.output_spec)
    return trace(lambda *pair: pair[-1:], inputs, key, name="stored key", input_spec=spec, output_spec=key.output_spec)


@remembered
def on_keyed(reduce: Function, key: Function) -> Function:
    """Return the function that does with a window of such pairs what ``reduce`` does with the elements alone.

    Args:
        reduce: takes a key and a window of elements, and gives a dataset.
        key: the function of the key.
    """
    elements, pairs = specs(key.element_inputs), (*specs(key.element_inputs), *specs(key.concrete.outputs))
    element = tf.function(lambda *pair: list(pair[:-1]), autograph=False).get_concrete_function(*pairs)

    def reduce_elements(group: Any, window: Any) -> list[Any]:
        alone = tf.raw_ops.MapDataset(
            input_dataset=window,
            other_arguments=[],
            f=element,
            output_types=[each.dtype for each in elements],
            output_shapes=[each.shape for each in elements],
            # So that the number of elements stays known.
            preserve_cardinality=True,
        )
        return run_whole(reduce, [group, alone])

    traced = trace(
        reduce_elements,
        specs(reduce.element_inputs),
        reduce,
        name=reduce.name,
        input_spec=(key.output_spec, tf.data.DatasetSpec((key.input_spec, key.output_spec))),
        output_spec=reduce.output_spec,
    )
    return replace(traced, element_types=reduce.element_types, element_shapes=reduce.element_shapes)
