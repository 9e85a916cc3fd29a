"""Whether the consumer of a dataset took its last element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.pipeline.extract import element_shapes, element_types

__all__ = ["telling_its_end"]


def telling_its_end(dataset: Any, tell: Callable[[], None], *, inner_prefetch: bool) -> Any:
    """Return the same elements; once the last was taken and another is asked for, something is done.

    Args:
        dataset: any dataset.
        tell: does it, in a graph.
        inner_prefetch: whether TensorFlow would end ``dataset`` with a prefetch of its own. After what is returned,
            that would ask, and not the consumer; so it is put before.

    >>> ended = tf.Variable(False)
    >>> def tell():
    ...     ended.assign(True)
    >>> told = telling_its_end(tf.data.Dataset.range(3), tell, inner_prefetch=True)
    >>> [int(x) for x in told], bool(ended.numpy())
    ([0, 1, 2], True)
    """
    if inner_prefetch:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    types, shapes = element_types(dataset), element_shapes(dataset)
    plain = tf.autograph.experimental.do_not_convert  # nothing to convert, so nothing to spend on it

    def end(_: Any) -> Any:
        tell()
        return tf.constant(False)

    def never(_: Any) -> Any:
        return tuple(tf.raw_ops.Placeholder(dtype=kind, shape=shape) for kind, shape in zip(types, shapes, strict=True))

    nothing = tf.data.Dataset.range(1).filter(plain(end)).map(plain(never), synchronous=True)
    variant = tf.raw_ops.ConcatenateDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        another_dataset=tf.data.experimental.to_variant(nothing),
        output_types=list(types),
        output_shapes=list(shapes),
    )
    told = tf.data.experimental.from_variant(variant, dataset.element_spec)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    told = told.with_options(options)
    # TensorFlow frees the functions of a dataset that nobody holds.
    told._autopipe_owner = (dataset, nothing)
    return told
