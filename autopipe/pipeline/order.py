"""Whether the order in which a stage gives its elements reaches anybody, and who may let it go."""

from __future__ import annotations

from dataclasses import replace

from autopipe.functions.known.effects import effects
from autopipe.pipeline import ir, trees

__all__ = ["as_ordered_as", "stages_of_free_order"]

# Each hands its elements on in the order in which it takes them.
_HANDING_ORDER_ON = (ir.Map, ir.Filter, ir.Prefetch, ir.ThreadPool)
_PARALLEL = (ir.Map, ir.MemoizedMap, ir.Interleave)


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


def as_ordered_as(tree: ir.Node, written: ir.Node) -> ir.Node:
    """Return a pipeline that keeps the order it has as written, also where an option after it frees that.

    Such an option is of parallel stages, and in what it was made of these may have been sequential. Those that were
    parallel are freed by it, unless something is kept of them: what others read is theirs.

    Args:
        tree: the pipeline as it runs.
        written: the pipeline as its author wrote it.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> written = extract(tf.data.Dataset.range(9).map(tf.abs))
    >>> as_ordered_as(replace(written, num_parallel_calls=2), written).deterministic
    True
    """
    if trees.frees_order(tree):
        return tree
    parallel = {node.fn for node in trees.walk(written) if isinstance(node, _PARALLEL) and node.num_parallel_calls}
    keeping = (node for node in trees.walk(tree) if isinstance(node, ir.Keeping))
    kept = {id(each) for node in keeping for each in trees.walk(node.input)}

    def ordered(node: ir.Node, inputs: list[ir.Node]) -> ir.Node:
        made = trees.on(node, *inputs)
        if not isinstance(made, _PARALLEL) or not made.num_parallel_calls or made.deterministic is not None:
            return made
        return made if made.fn in parallel and id(node) not in kept else replace(made, deterministic=True)

    return trees.fold(tree, ordered)


def _looks_at_order(node: ir.Node) -> bool:
    """Return whether what a stage makes of an element depends on those it has had before."""
    return not all(replace(effects(fn), unseeded_random=()).steady for fn in trees.called_by(node))
