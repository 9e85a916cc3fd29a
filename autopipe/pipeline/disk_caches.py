"""The caches that autopipe keeps on disk, and a file for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autopipe.pipeline import ir, trees

__all__ = ["caches_on_disk", "with_files"]


def caches_on_disk(tree: ir.Node) -> list[ir.Cache]:
    """Return the disk caches of a pipeline, in the order of the tree."""
    return [node for node in trees.walk(tree) if isinstance(node, ir.Cache) and node.on_disk]


def with_files(tree: ir.Node, files: Sequence[str]) -> ir.Node:
    """Return the tree with a file for each of its disk caches, in the order of the tree; unchanged without files."""
    for cache, file in zip(caches_on_disk(tree), files, strict=False):
        tree = trees.substitute(tree, cache, replace(cache, filename=file))
    return tree
