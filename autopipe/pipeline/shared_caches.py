"""Memory caches that are left to the author: made again, they would hold other elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.order_inside import op_of_free_order, op_that_an_option_frees
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import opaque
from autopipe.pipeline.repeatable import reads_files
from autopipe.pipeline.text import stage
from autopipe.pipeline.visibility import who_has_side_effects

__all__ = ["leave_shared_caches", "who_takes_a_part", "with_what_is_shared"]

# Stages for which the order of the input decides which elements they give.
_DEPENDING_ON_ORDER = ir.Enumerate | ir.Scan | ir.Shard | ir.Skip | ir.Take | ir.TakeWhile | ir.Window


def leave_shared_caches(tree: ir.Node, *, files_may_change: bool = False) -> ir.Node:
    """Return a pipeline in which such caches, with all stages before them, are one stage that is left unchanged.

    ``files.shuffle(n).cache()`` is split by ``take`` and ``skip`` into training and validation data, or read once for
    predictions and once for labels: these do not overlap, or stay aligned, only because all of them read one cache.
    Another cache would hold another order. And the results of Python code, such as a stream, may be available only
    once.

    Args:
        tree: the pipeline.
        files_may_change: whether elements of files count as well, if only a part of them is taken.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> one_line(leave_shared_caches(extract(tf.data.Dataset.range(9).shuffle(9).cache().batch(2))))
    'cache() | batch(2)'
    >>> one_line(leave_shared_caches(extract(tf.data.Dataset.range(9).cache().shuffle(9).batch(2))))
    'range(0, 9) | cache() | shuffle(9) | batch(2)'
    """
    # Inputs first: a cache that is left unchanged must not change one that reads it.
    for cache in filter(_is_memory_of_author, reversed(list(trees.inputs_first(tree)))):
        reason = _why_it_is_left(cache, tree, files_may_change)
        if reason is not None:
            tree = trees.substitute(tree, cache, _as_one(cache, reason))
    return tree


def with_what_is_shared(tree: ir.Node) -> ir.Node:
    """Return the pipeline with all its stages: those that are read as one, too.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(9).shuffle(9).cache().take(3))
    >>> with_what_is_shared(leave_shared_caches(tree)) == tree
    True
    """
    return trees.transform(tree, lambda node: node.inside if isinstance(node, ir.SharedCache) else node)


def who_takes_a_part(cache: ir.Cache, tree: ir.Node) -> ir.Node | None:
    """Return a stage that takes a part of the author's memory cache, by position; ``None`` if there is none."""
    taking = (node for node in trees.walk(tree) if isinstance(node, _DEPENDING_ON_ORDER))
    return next((node for node in taking if cache in _read_in_order(node)), None)


def _why_it_is_left(cache: ir.Cache, tree: ir.Node, files_may_change: bool) -> str | None:
    """Return why a cache must not be filled again; ``None`` if it may be."""
    if _is_drawn(cache, tree):
        return "what it holds was drawn, or put in an order, once for all datasets that read it"
    if (witness := who_has_side_effects(cache.input)) is not None:
        return f"it may be full already, and it could be noticed that its elements are made again, since {witness}"
    if files_may_change and reads_files(cache.input) and (taking := who_takes_a_part(cache, tree)) is not None:
        rest = f"{stage(taking)} takes a part of that, and another dataset may take the rest"
        return f"what it holds was read from files for the dataset that filled it; {rest}"
    return None


def _is_memory_of_author(node: ir.Node) -> TypeGuard[ir.Cache]:
    return trees.is_memory_cache(node) and node.origin is not None


def _read_in_order(taking: ir.Node) -> Iterator[ir.Cache]:
    """Yield the caches whose order a stage sees: a shuffle in between would change it anyway."""
    for source in taking.inputs:
        if _is_memory_of_author(source):
            yield source
        elif not (isinstance(source, ir.Shuffle) and source.mixes_anew):
            yield from _read_in_order(source)


def _is_drawn(cache: ir.Cache, tree: ir.Node) -> bool:
    """Return whether elements, or their order, may differ if they are made again."""
    freed = trees.frees_order(tree)
    return any(_draws(node) or (freed and _may_be_freed(node)) for node in trees.walk_through(cache.input))


def _may_be_freed(node: ir.Node) -> bool:
    return node.is_parallel or any(map(op_that_an_option_frees, trees.called_by(node)))


def _draws(node: ir.Node) -> bool:
    if getattr(node, "deterministic", None) is False:
        return True
    match node:
        case ir.Shuffle():
            return node.mixes_anew
        case ir.Options(options=options):
            return options.deterministic is False
        case ir.RandomNumbers(seeded=seeded):
            return not seeded
        case ir.Opaque():
            return True
    return any(op_of_free_order(fn) or not effects(fn).steady for fn in trees.called_by(node))


def _as_one(cache: ir.Cache, reason: str) -> ir.SharedCache:
    read = opaque(cache.origin, reason)
    return ir.SharedCache(
        dataset=read.dataset,
        label=read.label,
        reason=read.reason,
        functions=read.functions,
        classes=read.classes,
        inside=cache,
        line=cache.line,
    )
