"""Running a pipeline to measure it, with separate caches instead of its author's."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import replace
from types import TracebackType
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.cache_files import is_unwritten

__all__ = ["OwnCaches"]


class OwnCaches:
    """Makes datasets of a pipeline that share their caches, whatever their knobs, so that each cache is filled once.

    Memory caches are separate from those of any other dataset. Caches on disk that do not exist yet are in a temporary
    folder.

    Args:
        tree: the pipeline.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(9).shuffle(9).cache())
    >>> with OwnCaches(tree) as caches:
    ...     list(caches.build(tree)) == list(caches.build(tree))
    True
    """

    def __init__(self, tree: ir.Node) -> None:
        self._count = len(memory_caches(tree))

    def __enter__(self) -> OwnCaches:
        self._folder = tempfile.TemporaryDirectory(prefix="autopipe-", ignore_cleanup_errors=True)
        # The second item of each frees the memory when it is deleted.
        self._memories = [tf.raw_ops.AnonymousMemoryCache() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memories = []
        self._folder.cleanup()

    def build(self, tree: ir.Node) -> Any:
        """Make the dataset of the pipeline, or of the same with other knobs."""
        return build(self.moved(tree), (handle for handle, _ in self._memories))

    def moved(self, tree: ir.Node) -> ir.Node:
        """Return the pipeline with its unwritten caches on disk in the temporary folder."""
        return trees.transform(tree, self._elsewhere)

    def _elsewhere(self, node: ir.Node) -> ir.Node:
        if is_unwritten(node):
            name = hashlib.sha256(node.filename.encode()).hexdigest()
            return replace(node, filename=os.path.join(self._folder.name, name))
        return node
