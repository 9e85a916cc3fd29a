"""Whether any element comes out: if a sample is repeated endlessly, a filter that drops all of it runs forever.

A filter that looks at positions, as after an ``enumerate``, may drop all elements except the first few.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.builders import build_stage
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.rules import MeasurementError

__all__ = ["ending_in_time", "may_fall_silent", "refuse_if_nothing_passes", "seen_to_drop_all"]

_MAY_DROP_ALL = (
    ir.Filter,
    ir.FlatMap,
    ir.GroupByWindow,
    ir.IgnoreErrors,
    ir.Interleave,
    ir.LegacyInterleave,
    # Batches may have no rows.
    ir.Rebatch,
    ir.TakeWhile,
    ir.Unbatch,
)
# Stages that give the same in each round of an endless repeat.
_IN_CYCLES = (
    ir.AssertCardinality | ir.Batching | ir.Cache | ir.End | ir.Filter | ir.Flattening | ir.IgnoreErrors | ir.Map
    | ir.Options | ir.Prefetch | ir.Rebatch | ir.Repeat | ir.Shard | ir.Shuffle | ir.Skip | ir.ThreadPool | ir.Unbatch
    | ir.Window
)  # fmt: skip
# Stages that drop what they give nothing for; others may hold it until there is more, or end.
_DROPPING = ir.Filter | ir.Flattening | ir.Unbatch
# How long a pipeline, and each stage, is looked at to find the one that drops all.
_SECONDS = 1.0


def may_fall_silent(tree: ir.Node) -> bool:
    """Return whether a pipeline may stop giving elements without coming to its end.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers = tf.data.Dataset.range(9).repeat()
    >>> few, some = numbers.enumerate().filter(lambda place, _: place < 20), numbers.filter(lambda x: x < 4)
    >>> [may_fall_silent(extract(dataset)) for dataset in (few, some, few.take(20), numbers.enumerate())]
    [True, False, True, False]
    """
    endless = _over_what_is_endless(tree)
    out_of_cycle: set[int] = set()
    for node in trees.inputs_first(tree):
        below = any(id(each) in out_of_cycle for each in node.inputs)
        if below or (id(node) in endless and not isinstance(node, _IN_CYCLES)):
            out_of_cycle.add(id(node))
            if _may_drop(node):
                return True
    return False


def ending_in_time(sides: Sequence[ir.Node], seconds: float) -> list[ir.Node]:
    """Return forms of one pipeline; if one of them may stop giving elements, all end this many seconds from now."""
    silent = any(map(may_fall_silent, sides))
    return [_with_ending_sources(side, seconds) if silent else side for side in sides]


def refuse_if_nothing_passes(tree: ir.Node) -> None:
    """Look for the first element of an endless pipeline, and of each part it chooses from, for a second each.

    Raises:
        MeasurementError: if no element comes.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> refuse_if_nothing_passes(extract(tf.data.Dataset.range(3).repeat().filter(lambda x: x > 9)))
    Traceback (most recent call last):
    ...
    autopipe.rules._base.MeasurementError: none of the elements tried passes filter(<lambda>)
    """
    chosen = (part for node in trees.walk(tree) if isinstance(node, ir.ChooseFrom) for part in node.parts)
    for each in dict.fromkeys([tree, *chosen]):
        _refuse_if_none_passes(each)


def _refuse_if_none_passes(tree: ir.Node) -> None:
    endless = _over_what_is_endless(tree)
    dropping = [node for node in trees.walk(tree) if id(node) in endless and isinstance(node, _MAY_DROP_ALL)]
    if not dropping or _gives_any(tree):
        return
    # If no earlier stage is at fault, the last one is, without another look.
    last, *earlier = dropping
    at_fault = next((node for node in reversed(earlier) if not _gives_any(node)), last)
    raise MeasurementError(f"none of the elements tried passes {stage(at_fault)}")


def _gives_any(endless: ir.Node) -> bool:
    return next(iter(build(_with_ending_sources(endless, _SECONDS))), None) is not None


def seen_to_drop_all(tree: ir.Node, seconds: float) -> ir.Node | None:
    """Look this long for the first element of an endless pipeline; if none comes, return the stage that drops all.

    That is one that took elements and gave none. A part that is never chosen takes none, and slow elements, or those
    that wait in a batch for more, are not dropped.

    Raises:
        tf.errors.OpError: if an element fails.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.pipeline.text import stage
    >>> numbers = tf.data.Dataset.range(3).repeat().filter(lambda x: x > 1)
    >>> stage(seen_to_drop_all(extract(numbers.batch(2).unbatch().filter(lambda one: one > 2)), seconds=0.5))
    'filter(<lambda>)'
    """
    endless = _over_what_is_endless(tree)
    blamed = {each: by for each, by in _blamed(tree).items() if each in endless}
    if not blamed:
        return None
    end = time.time() + seconds
    first = _first_endless(tree, endless)
    # What comes later was held back until the sources ended.
    taken, given = ({each: _Count(until) for each in blamed} for until in (end, math.inf))

    def counting(node: ir.Node, inputs: list[Any]) -> Any:
        if id(node) not in blamed:
            made = build_stage(node, *inputs)
            return _for_a_while(made, seconds) if node in first else made
        return given[id(node)].of(build_stage(node, *map(taken[id(node)].of, inputs)))

    next(iter(trees.fold(tree, counting)), None)
    if time.time() < end:
        return None
    return next((by for each, by in blamed.items() if taken[each].number and not given[each].number), None)


def _blamed(tree: ir.Node) -> dict[int, ir.Node]:
    """Return the ids of stages that lose elements, and which stage to blame: for errors of a map, what drops them."""
    blamed: dict[int, ir.Node] = {}
    for node in trees.inputs_first(tree):
        if isinstance(node, _DROPPING):
            blamed[id(node)] = node
        elif isinstance(node, ir.IgnoreErrors):
            blamed |= {id(each): node for each in trees.walk(node.input) if isinstance(each, ir.Mapping)}
    return blamed


def _with_ending_sources(tree: ir.Node, seconds: float) -> ir.Node:
    """Return a pipeline whose endless sources and repeats end after a while."""
    first = _first_endless(tree, _over_what_is_endless(tree))

    def ending(node: ir.Node) -> ir.Node:
        return ir.Source(dataset=_for_a_while(build(node), seconds)) if node in first else node

    return trees.transform(tree, ending)


def _first_endless(tree: ir.Node, endless: set[int]) -> set[ir.Node]:
    """Return the endless stages over what ends; a later repeat ends too, once a round of it gives nothing."""
    return {
        node
        for node in trees.inputs_first(tree)
        if id(node) in endless and not any(id(each) in endless for each in node.inputs)
    }


def _over_what_is_endless(tree: ir.Node) -> set[int]:
    """Return the ids of endless stages, and of all stages after them."""
    found: set[int] = set()
    for node in trees.inputs_first(tree):
        if any(id(each) in found for each in node.inputs) or signature(node).is_infinite:
            found.add(id(node))
    return found


def _may_drop(node: ir.Node) -> bool:
    """Return whether a stage may drop elements; a rebatch joins batches, so it drops empty ones."""
    return isinstance(node, ir.Rebatch) or signature(node).is_unknown


def _for_a_while(dataset: Any, seconds: float) -> Any:
    end = tf.timestamp() + seconds
    return dataset.take_while(lambda *_: tf.timestamp() < end)


class _Count:
    """How many elements go by until some moment.

    Attributes:
        number: how many did.
    """

    def __init__(self, until: float) -> None:
        self._until = until
        with tf.device("CPU:0"):
            self.number = tf.Variable(0, trainable=False, dtype=tf.int64)

    def of(self, dataset: Any) -> Any:
        """Return the same elements, counted."""
        number, until = self.number, self._until

        @without_autograph
        def note(*_: Any) -> Any:
            number.assign_add(tf.cast(tf.timestamp() < until, tf.int64))
            return True

        # TensorFlow frees the functions of a dataset that is not referenced.
        self._counted = dataset.filter(note)
        return self._counted
