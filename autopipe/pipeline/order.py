"""Whether the order in which a stage gives its elements matters downstream, and which stages may give it up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature

__all__ = ["kept_in_order", "mixes_all", "stages_of_free_order"]

# Stages that pass on their elements in the order in which they take them.
_HANDING_ORDER_ON = ir.Map | ir.Filter | ir.Prefetch | ir.ThreadPool
# Stages for which an option decides whether they pass on first what is ready first.
_FREED = ir.Batch | ir.Interleave | ir.LegacyInterleave | ir.Mapping


def mixes_all(shuffle: ir.Shuffle) -> bool:
    """Return whether a shuffle is known to hold all elements of an epoch at once.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9)
    >>> [mixes_all(extract(each)) for each in (numbers.shuffle(9), numbers.shuffle(8), numbers.repeat().shuffle(9))]
    [True, False, False]
    """
    return shuffle.buffer_size < 0 or 0 <= signature(shuffle.input).cardinality <= shuffle.capacity


def stages_of_free_order(shuffle: ir.Shuffle) -> tuple[ir.Node, ...]:
    """Return the stages upstream of a shuffle whose order only the shuffle sees.

    A batch, a ``take`` or a ``zip`` in between depends on the order, and ends the search; so does a function that
    draws from a seed, or counts.
    """
    found: list[ir.Node] = []
    node = shuffle.input
    while isinstance(node, _HANDING_ORDER_ON | ir.Interleave | ir.FilesReader | ir.Shuffle):
        found.append(node)
        if not isinstance(node, _HANDING_ORDER_ON) or _looks_at_order(node):
            break
        node = node.input
    return tuple(found)


def kept_in_order(tree: ir.Node) -> ir.Node:
    """Return a pipeline that keeps its order, even if an option after it frees that.

    Such an option affects parallel stages, and these may have been sequential as written. Stages that were parallel may
    be freed by it, unless their elements are kept for other readers.

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
    """Yield the stages whose elements are kept, or numbered, in the order in which they come.

    The order of an author's own cache may be freed. Between the numbering and the memoized map, elements may come in
    any order.
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
    """Return whether the result of a stage for an element depends on earlier elements."""
    return not all(replace(effects(fn), unseeded_random=()).steady for fn in trees.called_by(node))
