"""Shuffles that are measured at their pace, not while their buffer fills."""

from __future__ import annotations

from dataclasses import replace

from autopipe.pipeline import ir

__all__ = ["with_small_shuffles"]

_FEW = 8


def with_small_shuffles(node: ir.Node) -> ir.Node:
    """Return the pipeline with shuffles that hold few elements: what a stage costs for one is the same.

    A buffer of all images takes as long to fill as an epoch, and the time given may be over before that. Where a
    ``take`` follows, its epoch is short, and filling the buffer most of it: there a shuffle stays what it is.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> dataset = tf.data.Dataset.range(9_000).shuffle(1_000).batch(2)
    >>> with_small_shuffles(extract(dataset)).input.buffer_size
    8
    """
    if isinstance(node, ir.Take) and node.count >= 0:
        return node
    inputs = [with_small_shuffles(child) for child in node.inputs]
    if isinstance(node, ir.Shuffle):
        whole = node.buffer_size < 0
        return replace(node, input=inputs[0], buffer_size=_FEW if whole else min(node.buffer_size, _FEW))
    return node.on(*inputs)
