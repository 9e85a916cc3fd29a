"""A function -> one that keeps its result for each number in a table of TensorFlow's.

The table holds the tensors themselves, not copies. Two simultaneous calls for one number both do the work, and give the
same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import specs, trace

__all__ = ["memoized", "new_table"]


def new_table() -> Any:
    """Return an empty table, which is freed with the last dataset and iterator that use it."""
    return tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.int64, value_dtype=tf.variant)


@remembered
def memoized(fn: Function, ahead: tuple[Any, ...] = (), behind: tuple[Any, ...] = ()) -> Function:
    """Return the function of a number, an element and a table that gives the table's entry for the number.

    If there is none yet, it calls ``fn`` with the element and stores the result; nothing is stored if that fails.

    Args:
        fn: the function to call.
        ahead: the ``tf.TensorSpec`` of each tensor that stands before the number and is passed on.
        behind: those after the element, likewise. If there are any of either, the results are flat.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> double = memoized(extract(tf.data.Dataset.range(9).map(lambda x: x * 2)).fn).concrete
    >>> table = new_table()
    >>> [int(double(tf.constant(0, tf.int64), tf.constant(x, tf.int64), table)[0]) for x in (4, 5)]
    [8, 8]
    """
    results = fn.concrete.outputs

    def look_up(*given: Any) -> Sequence[Any]:
        before, (number, *element), after = _split(given[:-1], len(ahead), len(given) - 1 - len(behind))
        table = given[-1]
        nothing = _packed([tf.constant(False), *(_any_of(each.dtype) for each in results)])
        found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=number, default_value=nothing)
        there, *known = _unpacked(found, [tf.bool, *(each.dtype for each in results)])

        def call() -> list[Any]:
            made, checks = _with_checks(fn, element)
            # An op that only has to run, such as an assertion, may fail after the result is made.
            with tf.control_dependencies(checks):
                kept = _packed([tf.constant(True), *made])
                tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=number, values=kept)
            return made

        made = tf.cond(there, lambda: known, call)
        for each, like in zip(made, results, strict=True):
            each.set_shape(like.shape)
        return [*before, *made, *after]

    number = tf.TensorSpec((), tf.int64)
    alone = not ahead and not behind
    return trace(
        look_up,
        (*ahead, number, *specs(fn.element_inputs), *behind, tf.TensorSpec((), tf.resource)),
        fn,
        name=fn.name,
        input_spec=(number, fn.input_spec) if alone else (*ahead, number, *specs(fn.element_inputs), *behind),
        output_spec=fn.output_spec if alone else (*ahead, *specs(results), *behind),
    )


def _with_checks(fn: Function, element: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of a function, and its ops that do more than compute."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    made = run_whole(fn, element)
    return made, [op for op in graph.get_operations()[before:] if op.op_def.is_stateful]


def _split(tensors: Sequence[Any], first: int, last: int) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    return tensors[:first], tensors[first:last], tensors[last:]


def _any_of(kind: Any) -> Any:
    """Return a tensor of a type, whatever its value."""
    return _packed([]) if kind == tf.variant else tf.zeros((), kind)


def _packed(tensors: Sequence[Any]) -> Any:
    """Return one scalar that holds tensors of any types and shapes."""
    return tf.raw_ops.CompositeTensorVariantFromComponents(components=list(tensors), metadata=b"")


def _unpacked(packed: Any, types: Sequence[Any]) -> list[Any]:
    parts = tf.raw_ops.CompositeTensorVariantToComponents(encoded=packed, metadata=b"", Tcomponents=list(types))
    return list(parts)
