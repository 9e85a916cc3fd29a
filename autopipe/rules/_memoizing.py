"""Numbering elements where each epoch still has the same ones, before all that only moves them."""

from autopipe.pipeline.ir import (
    AUTOTUNE,
    AssertCardinality,
    Enumerate,
    Map,
    Node,
    Options,
    Prefetch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
)

__all__ = ["LEAST_SAVED_SECONDS", "calls_of", "is_plain", "moved_since", "numbered"]

# To find a result takes about 15 us.
LEAST_SAVED_SECONDS = 100e-6
# None of them looks at elements.
_MOVING = (AssertCardinality, Options, Prefetch, Repeat, Shard, Shuffle, Skip, Take)


def is_plain(mapped: Map) -> bool:
    """Return whether a map gives one element for each, in order, and may be called ahead."""
    return mapped.preserve_cardinality and not mapped.synchronous and mapped.deterministic is not False


def calls_of(mapped: Map) -> int:
    """Return the calls at once of what takes the place of a map: TensorFlow makes a steady one parallel by itself."""
    return AUTOTUNE if mapped.num_parallel_calls is None else mapped.num_parallel_calls


def moved_since(node: Node) -> tuple[Node, list[Node]]:
    """Return where elements come from, and the stages since then that only move them, the last one first."""
    moved: list[Node] = []
    while isinstance(node, _MOVING):
        moved.append(node)
        node = node.input
    return node, moved


def numbered(source: Node, moved: list[Node]) -> Node:
    """Return the elements of a source with their numbers, moved as they were."""
    elements: Node = Enumerate(input=source)
    for stage in reversed(moved):
        elements = stage.on(elements)
    return elements
