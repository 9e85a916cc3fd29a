"""Files that the author's ``cache(filename)`` keeps elements in."""

from __future__ import annotations

from typing import TypeGuard

import tensorflow as tf

from autopipe.pipeline import ir, trees

__all__ = ["is_unwritten", "may_write", "writing_none"]


def is_unwritten(node: ir.Node) -> TypeGuard[ir.Cache]:
    """Return whether a stage is a cache in a file that does not exist yet, or is incomplete.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> in_memory, in_file = (extract(tf.data.Dataset.range(3).cache(name)) for name in ("", "/no/such/folder/file"))
    >>> is_unwritten(in_memory), is_unwritten(in_file)
    (False, True)
    """
    if not isinstance(node, ir.Cache) or not node.filename:
        return False
    return not tf.io.gfile.exists(f"{node.filename}.index")


def may_write(pipeline: ir.Node) -> bool:
    """Return whether an iterator may write such a file: then no other may begin before that one is gone.

    TensorFlow writes it in parts, under a lock that is released with the iterator, and would find those of another one.
    """
    return any(map(_may_write, trees.walk_through(pipeline)))


def writing_none(pipeline: ir.Node) -> ir.Node:
    """Return a pipeline that gives the same elements but writes no such file, which others may write meanwhile.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(3).cache("/no/such/folder/file").batch(2))
    >>> [type(node).__name__ for node in trees.walk(writing_none(tree))]
    ['Batch', 'Range']
    """
    return trees.transform(pipeline, lambda node: node.input if is_unwritten(node) else node)


def _may_write(node: ir.Node) -> bool:
    hidden = isinstance(node, ir.Opaque) and "CacheDataset" in node.classes
    return hidden or is_unwritten(node)
