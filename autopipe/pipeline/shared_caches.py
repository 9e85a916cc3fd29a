"""Memory caches that stay their author's: what they hold would be other elements if it were made once more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from autopipe.functions.known.effects import effects
from autopipe.functions.subgraph import with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import opaque
from autopipe.pipeline.repeatable import reads_files
from autopipe.pipeline.text import stage
from autopipe.pipeline.visibility import who_leaves_traces

__all__ = ["leave_shared_caches", "who_takes_a_part", "with_what_is_shared"]

# Which elements these give depends on the order of what they read, or may in what follows.
_BY_POSITION = (ir.Enumerate, ir.Scan, ir.Shard, ir.Skip, ir.Take, ir.TakeWhile, ir.Window)
_IN_WINDOWS = frozenset({"ShardDataset", "SkipDataset", "TakeDataset"})
_DRAWN = "drawn, or put in an order,"


def leave_shared_caches(tree: ir.Node, *, keeps_draws: bool = False) -> ir.Node:
    """Return a pipeline in which such caches, and all before them, are read as one.

    ``files.shuffle(n).cache()`` is split by ``take`` and ``skip`` into data to train on and to validate with, and that
    these share nothing is owed to both reading one cache. Another cache would hold another order. And what Python code
    gives, as that of a stream, may be had only once.

    Args:
        tree: the pipeline.
        keeps_draws: whether what was drawn, or put in an order, for the author's cache must stay wherever it is read,
            and what it was read from files, of which only a part is taken.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> held = tf.data.Dataset.range(9).shuffle(9).cache()
    >>> one_line(leave_shared_caches(extract(held.skip(3).batch(2))))
    'cache() | skip(3) | batch(2)'
    >>> one_line(leave_shared_caches(extract(held.batch(2))))
    'range(0, 9) | shuffle(9) | cache() | batch(2)'
    """
    left: dict[int, tuple[ir.Cache, str]] = {}
    for cache, reason in _shared(tree, keeps_draws):
        left.setdefault(id(cache), (cache, reason))
    for cache, reason in left.values():
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
    """Return a stage that takes some of what the author's memory cache holds, by position; ``None`` if none does."""
    return next((node for node in trees.walk(tree) if cache in _taken_by_position(node)), None)


def _shared(tree: ir.Node, keeps_draws: bool) -> Iterator[tuple[ir.Cache, str]]:
    """Yield the caches, and why each is not to be filled once more; the last one of those that read each other."""
    for node in trees.walk(tree):
        for cache in _taken_by_position(node):
            if (how := _how_it_was_made(cache, files_count=keeps_draws)) is not None:
                rest = f"{stage(node)} may take a part of that by position, and another dataset the rest"
                yield cache, f"what it holds was {how} for whoever filled it; {rest}"
        if not _is_memory_of_author(node):
            continue
        if (witness := who_leaves_traces(node.input)) is not None:
            yield node, f"it may be full already, and to make once more what it holds could be noticed, since {witness}"
        if keeps_draws and _is_drawn(node):
            yield node, f"what it holds was {_DRAWN} for whoever filled it, which may have been before"


def _is_memory_of_author(node: ir.Node) -> TypeGuard[ir.Cache]:
    return isinstance(node, ir.Cache) and node.in_memory and node.origin is not None


def _taken_by_position(node: ir.Node) -> list[ir.Cache]:
    """Return the caches of which a stage may take some elements by their position."""
    if isinstance(node, ir.Zip):
        # Several views of the same elements take all of them.
        sides = [list(_read_in_order(part)) for part in node.inputs]
        return [cache for side in sides for cache in side if not all(cache in other for other in sides)]
    if isinstance(node, _BY_POSITION) or _takes_batches_apart(node) or _takes_windows_apart(node):
        return [cache for source in node.inputs for cache in _read_in_order(source)]
    return []


def _takes_batches_apart(node: ir.Node) -> bool:
    """Return whether it gives rows of batches of which a map may have left some out."""
    if not isinstance(node, ir.Unbatch) or not isinstance(node.input, ir.Map):
        return False
    return any(isinstance(each, ir.Batch) for each in trees.walk(node.input))


def _takes_windows_apart(node: ir.Node) -> bool:
    """Return whether it gives a part of each of its groups."""
    if not isinstance(node, ir.GroupByWindow):
        return False
    return any(op.op in _IN_WINDOWS for op in with_called(node.reduce_func.concrete.graph.as_graph_def()))


def _read_in_order(source: ir.Node) -> Iterator[ir.Cache]:
    """Yield the caches whose order is seen after a stage: after a shuffle without a seed it is another one anyway."""
    if _is_memory_of_author(source):
        yield source
    elif not (isinstance(source, ir.Shuffle) and source.mixes_anew and not source.seeded):
        for each in source.inputs:
            yield from _read_in_order(each)


def _how_it_was_made(cache: ir.Cache, *, files_count: bool) -> str | None:
    """Return how it came to what it holds, if that could be something else the next time."""
    if _is_drawn(cache):
        return _DRAWN
    return "read from files" if files_count and reads_files(cache.input) else None


def _is_drawn(cache: ir.Cache) -> bool:
    """Return whether elements, or their order, may be others where they are made once more."""
    return any(map(_draws, trees.walk(cache.input)))


def _draws(node: ir.Node) -> bool:
    if getattr(node, "deterministic", None) is False:
        return True
    match node:
        case ir.Shuffle():
            return node.mixes_anew
        case ir.Options(options=options):
            return options.deterministic is False
        case ir.Opaque(inside=None):
            return True
    return not all(effects(fn).steady for fn in trees.called_by(node))


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
