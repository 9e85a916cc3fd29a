"""Whether the order in which a stage gives its elements matters downstream, and which stages may give it up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees

__all__ = ["kept_in_order", "stages_of_free_order"]

# Each hands its elements on in the order in which it takes them.
_HANDING_ORDER_ON = (ir.Map, ir.Filter, ir.Prefetch, ir.ThreadPool)
# Of each, an option decides whether it hands on what is ready first.
_FREED = (ir.Batch, ir.Interleave, ir.LegacyInterleave, ir.Map, ir.MemoizedMap)


def stages_of_free_order(shuffle: ir.Shuffle) -> tuple[ir.Node, ...]:
    """Return the stages upstream of a shuffle whose order nothing but the shuffle takes in.

    A batch, a ``take`` or a ``zip`` between makes something of the order, and ends the search; so does a function that
    draws from a seed, or counts.
    """
    found: list[ir.Node] = []
    node = shuffle.input
    while isinstance(node, (*_HANDING_ORDER_ON, ir.Interleave, ir.FilesReader, ir.Shuffle)):
        found.append(node)
        if not isinstance(node, _HANDING_ORDER_ON) or _looks_at_order(node):
            break
        node = node.input
    return tuple(found)


def kept_in_order(tree: ir.Node) -> ir.Node:
    """Return a pipeline that keeps the order it has, also where an option after it frees that.

    Such an option is of parallel stages, and those that are may have been sequential as written. Those that were
    parallel are freed by it, unless something is kept of them: what others read is theirs.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> mapped = extract(tf.data.Dataset.range(9).map(tf.abs, num_parallel_calls=2))
    >>> kept_in_order(mapped).deterministic, kept_in_order(replace(mapped, in_order=True)).deterministic
    (None, True)
    """
    kept = {id(each) for node in _kept_by_place(tree) for each in trees.walk(node)}

    def ordered(node: ir.Node, inputs: list[ir.Node]) -> ir.Node:
        made = trees.on(node, *inputs)
        if not isinstance(made, _FREED) or made.deterministic is not None or not made.is_parallel:
            return made
        must_stay = id(node) in kept or getattr(made, "in_order", False)
        return replace(made, deterministic=True) if must_stay else made

    return trees.fold(tree, ordered)


def _kept_by_place(tree: ir.Node) -> Iterator[ir.Node]:
    """Yield what is kept, or numbered to be told apart, in the order in which it comes.

    What a cache keeps as its author lets it come is theirs to free. Between numbers and what they tell apart, elements
    may come in any order.
    """
    freed = trees.frees_order(tree)
    for node in trees.walk(tree):
        if isinstance(node, ir.MemoizedMap):
            yield from _numbered(node.input)
        elif isinstance(node, ir.Keeping) and not freed:
            yield node.input


def _numbered(node: ir.Node) -> Iterator[ir.Node]:
    if isinstance(node, ir.Enumerate):
        yield node.input
        return
    for each in node.inputs:
        yield from _numbered(each)


def _looks_at_order(node: ir.Node) -> bool:
    """Return whether what a stage makes of an element depends on those it has had before."""
    return not all(replace(effects(fn), unseeded_random=()).steady for fn in trees.called_by(node))
