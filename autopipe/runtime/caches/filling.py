"""The pipeline of an iterator while memory caches are not full: its elements must not wait until they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import memory_caches, only_cache
from autopipe.pipeline.order import mixes_all
from autopipe.pipeline.signature import signature

__all__ = [
    "begins_with_all",
    "fills_at_once",
    "keeping_nothing",
    "looked_at",
    "may_run_as_written",
    "passing",
    "while_filling",
]


def while_filling(tree: ir.Node, after: Sequence[ir.Node] = ()) -> ir.Node:
    """Return the pipeline for an iterator that fills memory caches; the same object if nothing has to change.

    A shuffle that was moved after a cache stands where its author wrote it, before the work that is cached: otherwise
    the first element would wait for the last. The cache then holds elements in a random order, but no later epoch shows
    it, since the shuffle mixes all of them. Any other shuffle of all elements mixes as many as its author wrote.

    The pipeline is unchanged where a repeat after the cache lets one iterator go on for more epochs: the later epochs
    would be mixed no better than the first.

    Args:
        tree: the pipeline.
        after: the stages that were put after it.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> cached = extract(tf.data.Dataset.range(9).map(abs).cache())
    >>> one_line(while_filling(ir.Shuffle(input=cached, buffer_size=9, from_before_the_work=True)))
    'range(0, 9) | shuffle(9) | map(abs) | cache()'
    """
    return tree if _goes_on(tree, after) else _before_the_work(tree, tree)


def begins_with_all(tree: ir.Node) -> bool:
    """Return whether the first element needs all that a cache will hold, because of a shuffle of all of it."""
    return _before_the_work(tree, tree) is not tree


def passing(tree: ir.Node, after: Sequence[ir.Node] = ()) -> ir.Node | None:
    """Return the pipeline for an iterator that will be abandoned midway: without caches, and shuffled as written.

    ``None`` where the same iterator would read a cache again, or where a cache is the author's own.

    Args:
        tree: the pipeline.
        after: the stages that were put after it.
    """
    kept = keeping_nothing(looked_at(tree))
    return None if _goes_on(tree, after) or memory_caches(kept) else kept


def may_run_as_written(written: ir.Node, after: Sequence[ir.Node] = ()) -> bool:
    """Return whether an iterator that will be abandoned midway may run a pipeline as it was written.

    It may if its first element fills a cache of the author's, which is then filled once. It may not if another
    iterator would repeat the orders of the first epoch, or if one iterator goes on for more epochs.
    """
    seeded = any(isinstance(node, ir.Shuffle) and node.seeded for node in trees.walk(written))
    return fills_at_once(written, after) and not seeded and not _goes_on(written, after)


def fills_at_once(written: ir.Node, after: Sequence[ir.Node] = ()) -> bool:
    """Return whether the first element may fill a memory cache, because of a shuffle of all that it holds.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> cached = tf.data.Dataset.range(9).cache()
    >>> [fills_at_once(extract(each)) for each in (cached, cached.shuffle(4), cached.shuffle(9))]
    [False, False, True]
    """
    stages = [node for node in trees.walk(written) if isinstance(node, ir.Shuffle)]
    mixed = [(node.input, node) for node in stages] + [
        (written, each) for each in after if isinstance(each, ir.Shuffle)
    ]
    return any(memory_caches(node) and _mixes_all(shuffle, node) for node, shuffle in mixed)


def _mixes_all(shuffle: ir.Shuffle, node: ir.Node) -> bool:
    number = signature(node).cardinality
    return number < 0 or number <= shuffle.capacity


def _goes_on(tree: ir.Node, after: Sequence[ir.Node]) -> bool:
    """Return whether an iterator goes on for more epochs, by a repeat after a cache."""
    repeats = [node for node in trees.walk(tree) if isinstance(node, ir.Repeat) and node.goes_on]
    return any(map(memory_caches, repeats)) or any(isinstance(stage, ir.Repeat) and stage.goes_on for stage in after)


def looked_at(tree: ir.Node) -> ir.Node:
    """Return the pipeline for a partial pass, with each shuffle where its author wrote it.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> cached = extract(tf.data.Dataset.range(9).map(abs).cache())
    >>> one_line(looked_at(ir.Shuffle(input=cached, buffer_size=5, from_before_the_work=True)))
    'range(0, 9) | shuffle(5) | map(abs) | cache()'
    """
    return _before_the_work(tree, None)


def keeping_nothing(tree: ir.Node) -> ir.Node:
    """Return a pipeline for one partial pass: without the caches that autopipe added.

    Where a cache is read at several places, all caches stay: its readers belong together.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import one_line
    >>> cached = extract(tf.data.Dataset.range(9).map(abs).cache())
    >>> one_line(keeping_nothing(replace(cached, origin=None)))
    'range(0, 9) | map(abs)'
    """
    stages = list(trees.walk(tree))
    if any(stages.count(cache) > 1 for cache in memory_caches(tree)):
        return tree

    def passed(node: ir.Node) -> ir.Node:
        ours = trees.is_memory_cache(node) and node.origin is None
        return node.inputs[0] if ours else node

    return trees.transform(tree, passed)


def _before_the_work(tree: ir.Node, filled: ir.Node | None) -> ir.Node:
    """Return a pipeline whose shuffles stand where their author wrote them, as far as the tree to fill allows."""
    return trees.transform(tree, lambda node: _filling(node, filled) if isinstance(node, ir.Shuffle) else node)


def _filling(shuffle: ir.Shuffle, tree: ir.Node | None) -> ir.Node:
    """Return what replaces a shuffle; if no tree is to be filled, without regard to what caches would hold."""
    at_first = shuffle.while_filling
    written = shuffle if at_first is None else replace(shuffle, buffer_size=at_first, while_filling=None)
    if not shuffle.from_before_the_work:
        return written
    held: list[ir.Unary] = []
    stage = shuffle.input
    while isinstance(stage, ir.PassingOn):
        held.append(stage)
        stage = stage.input
    if not trees.is_memory_cache(stage):
        return written
    if tree is not None and not _is_mixed_whole(shuffle, stage, tree):
        return written
    work: list[ir.Unary] = [stage]
    while isinstance(work[-1].input, ir.Map | ir.PassingOn):
        work.append(work[-1].input)
    made: ir.Node = written.on(work[-1].input)
    for each in reversed((*held, *work)):
        made = each.on(made)
    return made


def _is_mixed_whole(shuffle: ir.Shuffle, cache: ir.Cache, tree: ir.Node) -> bool:
    """Return whether a shuffle holds all elements of a cache that is the only one and is read only here.

    With several caches, one may be full while another is being filled: its elements would come in one order for good.
    """
    return only_cache(tree) == cache and mixes_all(shuffle)
