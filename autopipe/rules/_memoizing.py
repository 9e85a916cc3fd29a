"""Numbering elements where each epoch still has the same ones, before all that only moves or chooses them."""

from dataclasses import replace
from itertools import count

from autopipe.functions.fixed_part import changes_between_epochs
from autopipe.functions.function import Function
from autopipe.functions.memoized import behind_number
from autopipe.pipeline.ir import (
    AUTOTUNE,
    AssertCardinality,
    ChooseFrom,
    Concatenate,
    Enumerate,
    Filter,
    Map,
    MemoizedMap,
    Node,
    Options,
    Prefetch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
)

__all__ = ["LEAST_SAVED_SECONDS", "is_plain", "memoized", "moved_since", "numbered"]

# To find a result takes about 15 us.
LEAST_SAVED_SECONDS = 100e-6
# None of them looks at elements.
_MOVING = (AssertCardinality, Options, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
# More than a source has elements.
_APART = 2**40


def is_plain(mapped: Map) -> bool:
    """Return whether a map gives one element for each, and may be called ahead."""
    return mapped.preserve_cardinality and not mapped.synchronous


def memoized(mapped: Map, fn: Function, elements: Node, *, ahead: int = 0, side: int | None = None) -> MemoizedMap:
    """Return what calls a function as a map does, of elements with numbers."""
    return MemoizedMap(
        input=elements,
        fn=fn,
        # TensorFlow makes a steady map parallel by itself.
        num_parallel_calls=AUTOTUNE if mapped.num_parallel_calls is None else mapped.num_parallel_calls,
        deterministic=mapped.deterministic,
        ahead=ahead,
        side=side,
        line=mapped.line,
    )


def moved_since(node: Node) -> tuple[Node, list[Node]]:
    """Return where elements come from, and the stages since then that only move them, the last one first."""
    moved: list[Node] = []
    while isinstance(node, _MOVING):
        moved.append(node)
        node = node.input
    return node, moved


def numbered(node: Node) -> Node:
    """Return a pipeline of elements that have the numbers they got at their sources."""
    import tensorflow as tf

    numbers = count(step=_APART)

    def number(each: Node) -> Node:
        if isinstance(each, _MOVING) and _differs(each):
            return each.on(number(each.input))
        if isinstance(each, Filter) and _differs(each):
            return replace(each, input=number(each.input), predicate=behind_number(each.predicate))
        if isinstance(each, Concatenate):
            return each.on(*map(number, each.inputs))
        if isinstance(each, ChooseFrom):
            spec = (tf.TensorSpec((), tf.int64), each.element_spec)
            return replace(each, parts=tuple(map(number, each.parts)), element_spec=spec)
        return Enumerate(input=each, start=next(numbers))

    return number(node)


def _differs(node: Node) -> bool:
    """Return whether a place in a pipeline may have other elements in each epoch, or the same ones again and again."""
    match node:
        case Repeat() | ChooseFrom() | Concatenate():
            return True
        case Shuffle(mixes_anew=True):
            return True
        case Filter(predicate=predicate) if changes_between_epochs(predicate):
            return True
    return isinstance(node, (*_MOVING, Filter)) and _differs(node.input)
