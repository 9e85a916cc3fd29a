"""Pipelines as they run in the epochs after the first, when caches are full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from autopipe.functions.joined.memoized import new_table
from autopipe.pipeline import ir, trees
from autopipe.planning.measuring.held_samples import at_the_pace_of, without_end
from autopipe.planning.measuring.samples import take_sample
from autopipe.planning.measuring.small_shuffles import small_shuffle
from autopipe.planning.measuring.turns import without_last_prefetch

__all__ = ["in_later_epochs"]

_SampleOf: TypeAlias = Callable[[ir.Node], ir.Node]
# At most this many elements are used where the results of all must be in a table.
_RESULTS = 64


def in_later_epochs(tree: ir.Node, sample_of: _SampleOf) -> ir.Node:
    """Return an endless pipeline like one whose caches are full and whose shuffle buffers take no time to fill.

    Args:
        tree: the pipeline.
        sample_of: makes a source of a sample of a pipeline's elements.
    """
    return ir.Repeat(input=_steady(without_last_prefetch(tree), sample_of))


def _steady(node: ir.Node, sample_of: _SampleOf) -> ir.Node:
    if isinstance(node, ir.Cache):
        return without_end(sample_of(node.input))
    if isinstance(node, ir.MemoizedMap):
        return _with_full_tables(node, sample_of)
    if isinstance(node, ir.Opaque) and node.inside is not None:
        return _steady(node.inside, sample_of)
    inputs = [_steady(child, sample_of) for child in node.inputs]
    if isinstance(node, ir.Shuffle):
        return small_shuffle(node.on(*inputs))
    if isinstance(node, ir.AssertCardinality):
        return inputs[0]
    return node.on(*inputs) if inputs else node


def _with_full_tables(node: ir.Node, sample_of: _SampleOf) -> ir.Node:
    """Return memoized maps over a sample whose results are all in the tables, at the pace of the stages before them.

    Stages before a full cache neither run nor start with an iterator; stages before memoized maps do, and so do the
    functions of the maps.
    """
    numbered = trees.past(node, ir.Mapping)
    source = sample_of(numbered)

    def filled(each: ir.Node) -> ir.Node:
        return replace(each, table=new_table()) if isinstance(each, ir.MemoizedMap) else each

    sampled = trees.transform(trees.substitute(node, numbered, source), filled)
    count = len(take_sample(sampled, _RESULTS))
    there = without_end(ir.Take(input=source, count=count))
    return trees.substitute(sampled, source, at_the_pace_of(_steady(numbered, sample_of), there))
