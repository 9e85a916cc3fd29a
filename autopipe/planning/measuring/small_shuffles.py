"""Shuffles with small buffers, for measuring their pace and not how long their buffers take to fill."""

from __future__ import annotations

from dataclasses import replace

from autopipe.pipeline import ir, trees

__all__ = ["small_shuffle", "with_small_shuffles"]

_FEW = 8


def with_small_shuffles(tree: ir.Node) -> ir.Node:
    """Return the pipeline with shuffles that hold few elements: the cost of a stage per element is the same.

    A buffer of all images takes as long to fill as an epoch, and the time given may be over before that. If a ``take``
    follows, filling the buffer is most of a short epoch: such a pipeline stays unchanged.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> dataset = tf.data.Dataset.range(9_000).shuffle(1_000).batch(2)
    >>> with_small_shuffles(extract(dataset)).input.buffer_size
    8
    """
    return tree if any(map(_takes_some_of_shuffled, trees.walk(tree))) else trees.transform(tree, _small)


def _takes_some_of_shuffled(node: ir.Node) -> bool:
    if not isinstance(node, ir.Take) or node.takes_all:
        return False
    return any(isinstance(each, ir.Shuffle) for each in trees.walk(node))


def small_shuffle(shuffle: ir.Shuffle) -> ir.Shuffle:
    """Return a shuffle that holds at most a few elements."""
    return replace(shuffle, buffer_size=int(min(shuffle.capacity, _FEW)))


def _small(node: ir.Node) -> ir.Node:
    return small_shuffle(node) if isinstance(node, ir.Shuffle) else node
