"""Functions side by side -> one function of the same element, or each of its own part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from autopipe.functions.analysis.common_subexpressions import computed_once
from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.regrouped import regrouped
from autopipe.functions.subgraph import trace

__all__ = ["Beside", "Side", "beside"]


class Side(NamedTuple):
    """The work on one side.

    Attributes:
        functions: they run one after the other; if there are none, the tensors are passed on.
        taken: which of the flat tensors they take.
    """

    functions: tuple[Function, ...]
    taken: slice


class Beside(NamedTuple):
    """One function for all sides.

    Attributes:
        fn: it gives the tensors of the first side, then those of the next.
        shared: the ops that did the same on several sides.
        rounds_alike: whether it gives the same bits.
    """

    fn: Function
    shared: tuple[Any, ...]
    rounds_alike: bool


def beside(sides: Sequence[Side], inputs: Sequence[Any], input_spec: Any, output_spec: Any) -> Beside:
    """Return a function that does the work of all sides; work on the same tensors is shared.

    Args:
        sides: the sides, with at least one function among them.
        inputs: the ``tf.TensorSpec`` of each flat tensor that goes in.
        input_spec: the structure of these.
        output_spec: the structure of all that comes out.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(3)
    >>> fns = [extract(numbers.map(f)).fn for f in (lambda x: tf.square(x) + 1, lambda x: tf.square(x) * 2)]
    >>> spec = numbers.element_spec
    >>> both = beside([Side((fn,), slice(1)) for fn in fns], [spec], spec, (spec, spec))
    >>> [int(each) for each in both.fn.concrete(tf.constant(3, tf.int64))], [op.type for op in both.shared]
    ([10, 18], ['Square'])
    """
    functions = [fn for side in sides for fn in side.functions]

    def all_sides(*tensors: Any) -> list[Any]:
        return [value for side in sides for value in _on_one(side, tensors)]

    last, *others = reversed(functions)
    whole = trace(
        all_sides, inputs, last, *others, name=_name(functions), input_spec=input_spec, output_spec=output_spec
    )
    fn, shared, rounds_alike = computed_once(whole)
    apart = sum(regrouped(each.concrete.graph) for each in functions)
    return Beside(fn, shared, rounds_alike and regrouped(whole.concrete.graph) == apart)


def _on_one(side: Side, tensors: Sequence[Any]) -> list[Any]:
    values = list(tensors[side.taken])
    for fn in side.functions:
        values = run_whole(fn, values)
    return values


def _name(functions: Sequence[Function]) -> str:
    names = list(dict.fromkeys(fn.name for fn in functions))
    return " and ".join(names) if len(names) > 1 or len(functions) == 1 else f"{len(functions)} times {names[0]}"
