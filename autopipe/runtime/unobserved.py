"""What may be done for iterators at another time, or by other stages, unnoticed."""

from __future__ import annotations

from autopipe.pipeline import ir, trees
from autopipe.pipeline.cache_files import may_write
from autopipe.pipeline.repeatable import reads_files
from autopipe.pipeline.seeds import is_reseeded, repeats_a_seeded_shuffle
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.measuring.turns import without_last_prefetch

__all__ = ["derived_from", "may_end_aside", "may_start_early"]


def may_end_aside(tree: ir.Node) -> bool:
    """Return whether an iterator may still be ending while the next one runs."""
    return who_would_see(tree) is None and not may_write(tree)


def may_start_early(tree: ir.Node, *, files_may_change: bool = False) -> bool:
    """Return whether an iterator may start while another is still read.

    It may not if a shuffle has a seed: if the early one were never read, the next would continue with another order.

    Args:
        tree: the pipeline.
        files_may_change: whether a program may rewrite its input in between: an early start reads the old files.
    """
    if not may_end_aside(tree) or (files_may_change and reads_files(tree)):
        return False
    # It is not known whether a shared cache is full; two iterators that fill it each have their own order.
    if any(isinstance(node, ir.SharedCache) for node in trees.walk(tree)):
        return False
    return not any(map(is_reseeded, trees.walk(tree)))


def derived_from(tree: ir.Node) -> ir.Node:
    """Return the pipeline that other datasets are derived from.

    If that matters, its last prefetch is left out: before a ``take``, it would draw orders that are never used, or fill
    a cache that others read.
    """
    draws = repeats_a_seeded_shuffle(tree) or any(isinstance(node, ir.SharedCache) for node in trees.walk(tree))
    return without_last_prefetch(tree) if draws else tree
