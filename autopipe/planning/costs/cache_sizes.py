"""How large a cache would be at every place of a pipeline where one can stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopipe.pipeline import ir, trees
from autopipe.pipeline.repeatable import varies_by_epoch
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.planning.costs.profile import Profile
from autopipe.planning.measuring.count import most_elements
from autopipe.planning.measuring.samples import held_beside
from autopipe.rules import MeasurementError

__all__ = ["CacheSize", "cache_sizes"]


@dataclass(frozen=True)
class CacheSize:
    """The memory that a cache after one stage would take.

    Attributes:
        stage: the stage, as text.
        line: where the user wrote it, if that is known.
        bytes: bytes of all its elements: the mean of those seen, with the overhead of holding one, times their number.
        error: what that may be off by: two standard errors of the mean, times the number of elements.
        elements: the largest number of elements there may be.
    """

    stage: str
    line: str | None
    bytes: int
    error: int
    elements: int


def cache_sizes(tree: ir.Node, profile: Profile) -> tuple[CacheSize, ...]:
    """Return the size of a cache after each stage where no random draw or shuffle makes epochs differ, sources first.

    Endless stages, and those whose elements cannot be counted without reading all, are left out.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.planning.costs.profiling import profile_tree
    >>> tree = extract(tf.data.Dataset.range(1000).map(lambda x: tf.zeros(100)).batch(10))
    >>> [(each.stage, round(each.bytes, -4)) for each in cache_sizes(tree, profile_tree(tree, 0.6))]
    [('range(0, 1000)', 210000), ('batch(10)', 420000)]
    """
    return tuple(_sizes(tree, profile))


def _sizes(tree: ir.Node, profile: Profile) -> Iterator[CacheSize]:
    for node in dict.fromkeys(reversed(list(trees.walk(tree)))):
        cost = next((each for each in profile.stages if each.place == node), None)
        if cost is None or isinstance(node, ir.Cache) or varies_by_epoch(node):
            continue
        try:
            elements = most_elements(node)
        except MeasurementError:
            continue
        mean, error = cost.bytes_per_element, 2 * cost.bytes_error
        each = mean + held_beside(signature(node).element_spec, mean, differ=error > 0)
        yield CacheSize(stage(node), node.line, round(each * elements), round(error * elements), elements)
