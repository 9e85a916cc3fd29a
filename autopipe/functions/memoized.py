"""A function -> one that keeps what it gave for each number, in a table of TensorFlow's.

The table holds the tensors themselves, no copies. Two calls for one number at once both do the work, and give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopipe.functions.compose import run_whole
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import specs, trace

__all__ = ["memoized", "new_table"]


def new_table() -> Any:
    """Return an empty table; what it holds goes with the last dataset and iterator that use it."""
    import tensorflow as tf

    return tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.int64, value_dtype=tf.variant)


@remembered
def memoized(fn: Function) -> Function:
    """Return the function of a number, an element and a table that gives what the table has for the number.

    Where that is nothing yet, it calls ``fn`` with the element and puts the result there. If that fails, nothing is.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> double = memoized(extract(tf.data.Dataset.range(9).map(lambda x: x * 2)).fn).concrete
    >>> table = new_table()
    >>> [int(double(tf.constant(0, tf.int64), tf.constant(x, tf.int64), table)[0]) for x in (4, 5)]
    [8, 8]
    """
    import tensorflow as tf

    results = fn.concrete.outputs

    def look_up(number: Any, *given: Any) -> Sequence[Any]:
        *element, table = given
        nothing = _packed([tf.constant(False), _packed([])])
        found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=number, default_value=nothing)
        there, packed = _unpacked(found, [tf.bool, tf.variant])

        def call() -> list[Any]:
            made = run_whole(fn, element)
            kept = _packed([tf.constant(True), _packed(made)])
            tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=number, values=kept)
            return made

        made = tf.cond(there, lambda: _unpacked(packed, [each.dtype for each in results]), call)
        for each, like in zip(made, results, strict=True):
            each.set_shape(like.shape)
        return list(made)

    return trace(
        look_up,
        (tf.TensorSpec((), tf.int64), *specs(fn.element_inputs), tf.TensorSpec((), tf.resource)),
        fn,
        name=fn.name,
        input_spec=(tf.TensorSpec((), tf.int64), fn.input_spec),
        output_spec=fn.output_spec,
    )


def _packed(tensors: Sequence[Any]) -> Any:
    """Return one scalar that holds tensors of any types and shapes."""
    import tensorflow as tf

    return tf.raw_ops.CompositeTensorVariantFromComponents(components=list(tensors), metadata=b"")


def _unpacked(packed: Any, types: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    parts = tf.raw_ops.CompositeTensorVariantToComponents(encoded=packed, metadata=b"", Tcomponents=list(types))
    return list(parts)
