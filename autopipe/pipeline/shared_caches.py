"""Memory caches from which another dataset may take what one leaves."""

from __future__ import annotations

from collections.abc import Iterator

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import opaque

__all__ = ["leave_shared_caches"]

# Which elements these give depends on the order of what they read.
_BY_POSITION = (ir.Enumerate, ir.Scan, ir.Shard, ir.Skip, ir.Take, ir.TakeWhile, ir.Window)
_REASON = (
    "what it holds was drawn, or put in an order, for whoever filled it; of that {taking} takes a part, and another "
    "dataset may take the rest"
)


def leave_shared_caches(tree: ir.Node) -> ir.Node:
    """Return a pipeline in which such caches, and all before them, are read as one: they stay the author's own.

    ``files.shuffle(n).cache()`` is split by ``take`` and ``skip`` into data to train on and to validate with, and that
    these share nothing is owed to both reading one cache. Another cache would hold another order.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> held = tf.data.Dataset.range(9).shuffle(9).cache()
    >>> one_line(leave_shared_caches(extract(held.skip(3).batch(2))))
    'cache() | skip(3) | batch(2)'
    >>> one_line(leave_shared_caches(extract(held.batch(2))))
    'range(0, 9) | shuffle(9) | cache() | batch(2)'
    """
    taken = {
        id(cache): (cache, stage)
        for stage in trees.walk(tree)
        if isinstance(stage, _BY_POSITION)
        for cache in _read_in_order(stage)
        if _is_drawn(cache.input)
    }
    for cache, stage in taken.values():
        tree = trees.substitute(tree, cache, _as_one(cache, stage))
    return tree


def _read_in_order(stage: ir.Node) -> Iterator[ir.Cache]:
    """Yield the author's memory caches whose order a stage sees: after a shuffle it would be another one anyway."""
    for source in stage.inputs:
        if isinstance(source, ir.Cache) and source.in_memory and source.origin is not None:
            yield source
        elif not (isinstance(source, ir.Shuffle) and source.mixes_anew):
            yield from _read_in_order(source)


def _is_drawn(source: ir.Node) -> bool:
    """Return whether elements, or their order, may be others where they are made once more."""
    return any(map(_draws, trees.walk(source)))


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


def _as_one(cache: ir.Cache, taking: ir.Node) -> ir.SharedCache:
    from autopipe.pipeline.text import stage

    read = opaque(cache.origin, _REASON.format(taking=stage(taking)))
    return ir.SharedCache(
        dataset=read.dataset,
        label=read.label,
        reason=read.reason,
        functions=read.functions,
        classes=read.classes,
        inside=cache,
        line=cache.line,
    )
