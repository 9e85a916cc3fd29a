"""Stages whose iterators TensorFlow cannot save if an option asks for symbolic checkpoints."""

from __future__ import annotations

from autopipe.pipeline import ir, trees

__all__ = ["who_is_saved_no_more"]


def who_is_saved_no_more(tree: ir.Node, before: ir.Node) -> ir.Node | None:
    """Return a stage that prevents saving or restoring iterators by symbolic checkpoints, which worked before.

    ``None`` if there is none, or such checkpoints were not asked for.

    A cache and a rebatch cannot be saved in this way. A parallel interleave is saved, but may hang forever once
    restored.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers, options = tf.data.Dataset.range(4).batch(2), tf.data.Options()
    >>> options.experimental_symbolic_checkpoint = True
    >>> plain, cached = (extract(each.with_options(options)) for each in (numbers, numbers.cache()))
    >>> type(who_is_saved_no_more(cached, before=plain)).__name__, who_is_saved_no_more(cached, before=cached)
    ('Cache', None)
    """
    if not any(options.experimental_symbolic_checkpoint for options in trees.options_of(tree)):
        return None
    if any(map(_is_not_saved, trees.walk(before))):
        return None
    waits = any(map(_may_wait_for_ever, trees.walk(before)))
    return next(
        (node for node in trees.walk(tree) if _is_not_saved(node) or (not waits and _may_wait_for_ever(node))), None
    )


def _is_not_saved(node: ir.Node) -> bool:
    return isinstance(node, ir.Keeping | ir.Rebatch)


def _may_wait_for_ever(node: ir.Node) -> bool:
    return isinstance(node, ir.Interleave) and node.num_parallel_calls is not None
