"""Random numbers that must be drawn in the order of the elements, apart from the work that uses them."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from autopipe.functions.analysis.effects import effects, ops_with_effects
from autopipe.functions.analysis.resources import generator_ops
from autopipe.functions.analysis.work import work_of
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.subgraph import needed_ops

__all__ = ["draw_first", "draws_in_order", "undisturbed_generators"]


def draws_in_order(fn: Function) -> bool:
    """Return whether a function draws numbers that depend on how many elements came before."""
    found = effects(fn)
    return bool(found.seeded_random or found.generator)


@remembered
def draw_first(fn: Function) -> tuple[Function, Function]:
    """Return a function that makes the draws of ``fn``, and one that does the rest of its work with them.

    Run one after the other, they give what ``fn`` gives. The first is cheap if the draws do not depend on the element:
    for a generator with a counter it only takes the counter.

    Raises:
        IllegalCutError: if the two cannot be parted; the message says why.

    >>> import keras, tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> flip = keras.layers.RandomFlip(seed=7)
    >>> images = tf.data.Dataset.from_tensors(tf.zeros((4, 4, 3)))
    >>> fn = function_of(images.map(lambda image: flip(image, training=True)))
    >>> first, rest = draw_first(fn)
    >>> effects(first).describe(), effects(rest).pure
    ('draws from a generator (AssignVariableOp, ReadVariableOp)', True)
    """
    drawn = _drawn(fn)
    _refuse_work_for_both(fn, drawn)
    first, rest = split(fn, [*drawn, *fn.element_inputs])
    if draws_in_order(rest):
        raise IllegalCutError(f"{fn} {effects(fn).describe()} inside a branch, a loop or a call")
    return replace(first, name=f"draws of {fn}"), replace(rest, name=f"rest of {fn}")


def _refuse_work_for_both(fn: Function, drawn: list[Any]) -> None:
    """Refuse work that the draws depend on, such as the shape of an image: the rest would do it once more."""
    graph = fn.concrete.graph
    rest = needed_ops(graph.outputs, [*drawn, *fn.element_inputs], waits=False)
    twice = rest & needed_ops(drawn, fn.element_inputs, waits=False) - ops_with_effects(fn)
    both = work_of(op for op in graph.get_operations() if op in twice)
    if both:
        raise IllegalCutError(f"what {fn} draws depends on work that the rest would do once more ({both})")


def _drawn(fn: Function) -> list[Any]:
    """Return the tensors through which the randomness of each element enters."""
    graph = fn.concrete.graph
    state = generator_ops(graph)
    seeds = {id(tensor) for op in state for tensor in op.outputs}
    drawn = []
    for op in graph.get_operations():
        fed = any(id(tensor) in seeds for tensor in op.inputs)
        if fed and op not in state and op.type.startswith("StatelessRandom"):
            drawn.extend(op.outputs)
        elif fed and op not in state:
            seeds.update(id(tensor) for tensor in op.outputs)
        elif op.type == "RngReadAndSkip" or _is_seeded(op):
            drawn.extend(op.outputs)
    return drawn


def _is_seeded(op: Any) -> bool:
    if not op.op_def.is_stateful or "seed2" not in op.node_def.attr:
        return False
    return bool(op.get_attr("seed") or op.get_attr("seed2"))


@contextmanager
def undisturbed_generators(functions: Iterable[Function]) -> Iterator[None]:
    """Put the generators that functions draw from back to where they were, so that a trial run leaves no trace."""
    variables = {
        id(variable): variable for fn in functions if effects(fn).generator for variable in _variables(fn)
    }.values()
    values = [variable.read_value() for variable in variables]
    try:
        yield
    except Exception as error:
        # The frames must not keep iterators, whose threads would go on drawing.
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _variables(fn: Function) -> Iterator[Any]:
    yield from fn.concrete.variables
    for made_from in fn.keeps_alive:
        if isinstance(made_from, Function):
            yield from _variables(made_from)
