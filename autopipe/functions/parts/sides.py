"""A function of several elements side by side -> its work on each of them alone, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopipe.functions.analysis.effects import described, ops_that_change, ops_with_effects
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.parts.fixed_part import changes_between_epochs, cheapest_cut
from autopipe.functions.subgraph import copy_into_trace, fed_by, needed_ops, specs, stand_ins, trace

__all__ = ["sides_opening_files", "sides_with_work", "split_by_sides"]


@remembered
def split_by_sides(
    fn: Function, widths: tuple[int, ...], kept: tuple[bool, ...] | None = None
) -> tuple[tuple[Function | None, ...], Function] | None:
    """Return the functions with the work on each side that is the same in every epoch, and the rest.

    A side without such work has no function, and the rest takes that side unchanged. ``None`` if no side has any.

    Args:
        fn: a function of all sides.
        widths: how many tensors each side has, in order.
        kept: the sides whose work is split off, by default all. The work of others is left to the rest.

    Raises:
        IllegalCutError: if it cannot be cut so; the message names the op and the user's line.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> texts = tf.data.Dataset.from_tensors("1")
    >>> both = tf.data.Dataset.zip((texts, texts)).map(lambda x, y: tf.strings.to_number(x) + tf.random.uniform([]))
    >>> parts, rest = split_by_sides(extract(both).fn, (1, 1))
    >>> [part and part.element_types for part in parts], [spec.dtype for spec in rest.input_spec]
    ([(tf.float32,), None], [tf.float32, tf.string])
    """
    sides = _apart(fn.element_inputs, widths)
    cuts = [cut if keeps else [] for cut, keeps in zip(_cuts(fn, widths), kept or [True] * len(widths), strict=True)]
    if not any(cuts):
        return None
    left = [tensor for cut, side in zip(cuts, sides, strict=True) if not cut for tensor in side]
    before, rest = split(
        fn, [tensor for cut, side in zip(cuts, sides, strict=True) for tensor in cut or side], late=left
    )
    if changes_between_epochs(before):
        raise IllegalCutError(f"part of {fn} on one side changes between epochs")
    given = _apart(before.concrete.outputs, [len(cut or side) for cut, side in zip(cuts, sides, strict=True)])
    taken = _apart(before.element_inputs, widths)
    effects = _effects(before, taken, [bool(cut) for cut in cuts])
    parts = (
        _alone(before, inputs, outputs, also, name=f"part of {fn}") if cut else None
        for cut, inputs, outputs, also in zip(cuts, taken, given, effects, strict=True)
    )
    return tuple(parts), rest


@remembered
def sides_with_work(fn: Function, widths: tuple[int, ...]) -> tuple[bool, ...]:
    """Return for each side whether a function does work on it alone that is the same in every epoch.

    Args:
        fn: a function of all sides.
        widths: how many tensors each side has, in order.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> texts = tf.data.Dataset.from_tensors("1")
    >>> both = tf.data.Dataset.zip((texts, texts)).map(lambda x, y: (tf.strings.to_number(x), y))
    >>> sides_with_work(extract(both).fn, (1, 1))
    (True, False)
    """
    return tuple(map(bool, _cuts(fn, widths)))


@remembered
def sides_opening_files(fn: Function, widths: tuple[int, ...]) -> tuple[bool, ...]:
    """Return for each side whether a function uses it to read files, or to call Python code declared stateless.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> texts = tf.data.Dataset.from_tensors("a")
    >>> both = tf.data.Dataset.zip((texts, texts)).map(lambda x, y: (tf.io.read_file(x), y))
    >>> sides_opening_files(extract(both).fn, (1, 1))
    (True, False)
    """
    opening = ops_with_effects(fn) - ops_that_change(fn)
    return tuple(bool(fed_by(side) & opening) for side in _apart(fn.element_inputs, widths))


@remembered
def _cuts(fn: Function, widths: tuple[int, ...]) -> list[list[Any]]:
    return [cheapest_cut(fn, side) for side in _apart(fn.element_inputs, widths)]


def _apart(tensors: Sequence[Any], widths: Sequence[int]) -> list[tuple[Any, ...]]:
    remaining = iter(tensors)
    return [tuple(next(remaining) for _ in range(width)) for width in widths]


def _effects(fn: Function, taken: Sequence[Sequence[Any]], works: Sequence[bool]) -> list[list[Any]]:
    """Return the ops that run for their effect, by side; those that need no side go with the first that does work.

    Raises:
        IllegalCutError: if an op needs several sides, or belongs before the cut on a side without work.
    """
    graph = fn.concrete.graph
    found: list[list[Any]] = [[] for _ in taken]
    for op in graph.control_outputs:
        needed = needed_ops([op], waits=False)
        sides = [number for number, side in enumerate(taken) if any(tensor.op in needed for tensor in side)]
        (home, *others) = sides or [works.index(True)]
        if others or not works[home]:
            raise IllegalCutError(f"{described(graph, op)} is not part of the work on any one side")
        found[home].append(op)
    return found


def _alone(fn: Function, inputs: Sequence[Any], outputs: Sequence[Any], also: Sequence[Any], name: str) -> Function:
    """Return the part of a function that gives some of its results, of one side."""
    graph, taken = fn.concrete.graph, specs(inputs)
    # TensorFlow makes every check wait for the one written before it, whatever that looks at.
    elsewhere = fed_by(tensor for tensor in fn.element_inputs if not any(tensor is each for each in inputs))

    def alone(*tensors: Any) -> Sequence[Any]:
        return copy_into_trace(graph, outputs, stand_ins(inputs, tensors), also=also, done=elsewhere)

    return trace(alone, taken, fn, name=name, input_spec=taken, output_spec=specs(outputs))
