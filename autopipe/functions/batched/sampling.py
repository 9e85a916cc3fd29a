"""The function of ``sample_from_datasets`` that draws one choice among datasets, and one that draws many."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import constant, origin, specs, trace

__all__ = ["many_choices"]


@remembered
def many_choices(fn: Function, count: int) -> Function | None:
    """Return a function that draws many choices as ``fn`` draws one; ``None`` if ``fn`` does something else.

    Args:
        fn: takes two numbers, the seed of the draw.
        count: how many to draw, each by itself, from one such seed.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(3)
    >>> sampled = extract(tf.data.Dataset.sample_from_datasets([numbers, numbers], weights=[0.25, 0.75]))
    >>> drawn = many_choices(sampled.choices.fn, 400).concrete(tf.constant([1, 2], tf.int64))[0].numpy()
    >>> drawn.shape, bool(80 < (drawn == 0).sum() < 120)
    ((400,), True)
    >>> many_choices(extract(numbers.map(lambda x: x + 1)).fn, 400)
    """
    drawn = _drawn_one(fn)
    if drawn is None:
        return None
    logits = constant(drawn.inputs[0])
    if logits is None:
        return None

    def draw(seed: Any) -> list[Any]:
        kind = drawn.outputs[0].dtype
        drawing = tf.raw_ops.StatelessMultinomial(logits=logits, num_samples=count, seed=seed, output_dtype=kind)
        return [drawing[0]]

    spec = tf.TensorSpec([count], drawn.outputs[0].dtype)
    name = f"draw {count:,} choices"
    return trace(draw, specs(fn.element_inputs), fn, name=name, input_spec=fn.input_spec, output_spec=spec)


def _drawn_one(fn: Function) -> Any:
    """Return the op that draws one number from the seed that a function takes, if it does nothing else."""
    if len(fn.element_inputs) != 1 or len(fn.concrete.outputs) != 1:
        return None
    squeezed = origin(fn.concrete.outputs[0]).op
    if squeezed.type != "Squeeze":
        return None
    drawn = squeezed.inputs[0].op
    if drawn.type != "StatelessMultinomial" or drawn.inputs[2] is not fn.element_inputs[0]:
        return None
    return drawn if constant(drawn.inputs[1]) == 1 and squeezed.outputs[0].shape.rank == 0 else None
