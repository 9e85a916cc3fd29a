"""Which stages TensorFlow saves no iterator of, where an option asks for symbolic checkpoints."""

from __future__ import annotations

from autopipe.pipeline import ir, trees

__all__ = ["who_is_not_saved"]


def who_is_not_saved(tree: ir.Node) -> ir.Node | None:
    """Return a stage that a symbolic checkpoint cannot hold, if its author asked for such; ``None`` if there is none.

    A cache and a rebatch refuse to be saved so. A parallel interleave is saved, but some that are restored wait for
    ever.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers, options = tf.data.Dataset.range(4).batch(2), tf.data.Options()
    >>> options.experimental_symbolic_checkpoint = True
    >>> cached = numbers.cache()
    >>> [type(who_is_not_saved(extract(each.with_options(options)))).__name__ for each in (numbers, cached)]
    ['NoneType', 'Cache']
    >>> who_is_not_saved(extract(cached)) is None
    True
    """
    if not any(options.experimental_symbolic_checkpoint for options in trees.options_of(tree)):
        return None
    return next(filter(_is_not_saved, trees.walk(tree)), None)


def _is_not_saved(node: ir.Node) -> bool:
    if isinstance(node, ir.Interleave):
        return node.num_parallel_calls is not None
    return isinstance(node, ir.Keeping | ir.Rebatch)
