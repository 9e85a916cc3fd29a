"""What a pipeline repeats when it runs twice, as far as its stages show."""

from __future__ import annotations

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees
from autopipe.pipeline.failing import may_fail_itself

__all__ = [
    "draws_freely",
    "draws_race",
    "order_is_free",
    "order_is_used",
    "reads_files",
    "varies_by_epoch",
    "who_frees_number",
]

# Stages that treat every element alike, wherever it stands.
_ALIKE_EVERYWHERE = (
    ir.AssertCardinality | ir.Cache | ir.End | ir.Filter | ir.Flattening | ir.IgnoreErrors | ir.Map | ir.Options
    | ir.Prefetch | ir.Repeat | ir.Shuffle | ir.ThreadPool
)  # fmt: skip
_HOLDING_READY = ir.End | ir.Options | ir.Prefetch | ir.ThreadPool


def draws_freely(tree: ir.Node) -> bool:
    """Return whether a function draws numbers that do not depend only on a seed of this pipeline."""
    return any(map(_draws_freely, trees.functions(tree)))


def draws_race(tree: ir.Node) -> bool:
    """Return whether the order of parallel calls decides which element gets which draw of a seed."""
    return any(
        effects(fn).seeded_random
        for node in trees.walk(tree)
        if isinstance(node, ir.Opaque) or node.is_parallel
        for fn in trees.called_by(node)
    )


def order_is_free(tree: ir.Node) -> bool:
    """Return whether two runs may give elements in another order."""
    return trees.frees_order(tree) or any(
        (isinstance(node, ir.Shuffle) and not node.seeded and node.mixes)
        or getattr(node, "deterministic", None) is False
        for node in trees.walk(tree)
    )


def order_is_used(tree: ir.Node) -> bool:
    """Return whether an order decides which elements there are, as after a ``take`` or a map of batches."""
    batched = False
    for node in reversed(list(trees.walk(tree))):
        if isinstance(node, ir.Source | ir.FilesReader):
            continue
        if isinstance(node, ir.Batch) and not node.drop_remainder and not batched:
            batched = True
        elif not isinstance(node, _HOLDING_READY if batched else _ALIKE_EVERYWHERE):
            return True
    return False


def who_frees_number(tree: ir.Node) -> ir.Node | None:
    """Return a stage that may give two runs different numbers of elements: what it leaves out was drawn or mixed."""
    mixed = order_is_free(tree)
    return next((node for node in trees.walk(tree) if _leaves_out_freely(node, mixed)), None)


def _leaves_out_freely(node: ir.Node, mixed: bool) -> bool:
    deciding = _deciding(node)
    drawn = any(draws_freely(each) or draws_race(each) for each in deciding)
    return drawn or (mixed and bool(deciding) and order_is_used(node))


def _deciding(node: ir.Node) -> list[ir.Node]:
    """Return the stages that decide which elements one leaves out: itself, or those that may fail."""
    if isinstance(node, ir.IgnoreErrors):
        return [each for each in trees.walk(node.input) if may_fail_itself(each)]
    return [node] if isinstance(node, ir.Filter | ir.TakeWhile) else []


def varies_by_epoch(tree: ir.Node) -> bool:
    """Return whether its author wants epochs to differ: by a draw or a shuffle, not by which call is ready first.

    Draws before a cache are made once. They make the epoch that fills the cache differ, but not by intention.
    """
    if isinstance(tree, ir.Cache):
        return False
    return _varies_itself(tree) or any(map(varies_by_epoch, tree.inputs))


def reads_files(tree: ir.Node) -> bool:
    """Return whether elements are read from files, which may change."""
    readers = any(isinstance(node, ir.FilesReader | ir.Saved) for node in trees.walk_through(tree))
    return readers or any(effects(fn).file_reads for fn in trees.functions(tree))


def _varies_itself(node: ir.Node) -> bool:
    if isinstance(node, ir.Shuffle):
        return node.mixes_anew
    return any(map(_draws_freely, trees.called_by(node)))


def _draws_freely(fn: Function) -> bool:
    found = effects(fn)
    return bool(found.unseeded_random or found.generator)
