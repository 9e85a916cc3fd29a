"""Pipelines that take turns on one machine: they make few elements ahead of their turn."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.planning.memory.machine import Machine

__all__ = ["elements_in_one_turn", "taking_turns", "without_autotune", "without_last_prefetch"]

_FEW = 8
_TURN_SECONDS = 2e-3
_MOST_IN_ONE_TURN = 64
# TensorFlow does not fuse these, and does not parallelize them if their calls are a number.
_NOT_REWRITTEN = ir.Cache | ir.Map | ir.Prefetch | ir.Repeat | ir.Shard | ir.TensorSlices


def taking_turns(endless: ir.Node, each: int = 1) -> Any:
    """Return the dataset of a pipeline that takes turns with another one; each runs one element ahead.

    Args:
        endless: a pipeline without end.
        each: only the last of each this many elements is given: Python would take a core to handle every one.
    """
    fixed = without_autotune(endless)
    few = fixed if each == 1 else ir.Shard(input=fixed, num_shards=each, index=each - 1)
    return _unattended(ir.Prefetch(input=few, buffer_size=1))


def elements_in_one_turn(endless: ir.Node) -> int:
    """Return how many elements take so long that Python's time for one of them is negligible."""
    elements = iter(_unattended(without_autotune(endless)))
    next(elements)
    began, count, taken = time.perf_counter(), 0, 0.0
    while count < _FEW and taken < _FEW * _TURN_SECONDS:
        next(elements)
        count, taken = count + 1, time.perf_counter() - began
    return max(1, min(round(_TURN_SECONDS * count / taken), _MOST_IN_ONE_TURN))


def without_last_prefetch(tree: ir.Node) -> ir.Node:
    """Return the pipeline without the prefetch at its end, which timing replaces by its own."""
    while isinstance(last := trees.last_stage(tree), ir.Prefetch):
        tree = trees.substitute(tree, last, last.input)
    return tree


def without_autotune(node: ir.Node) -> ir.Node:
    """Return the pipeline with numbers where AUTOTUNE chooses them: a call for each thread, and one element ahead.

    AUTOTUNE mistakes the pauses of pipelines that take turns for a slow consumer: it then makes few calls, and buffers
    so large that elements made during a pause seem to have cost no time. TensorFlow also leaves sequential maps to it,
    if their functions are stateless.
    """
    calls = _threads(node)

    def fixed(each: ir.Node) -> ir.Node:
        match each:
            case ir.Prefetch():
                return replace(each, buffer_size=1)
            case ir.Map(synchronous=False, use_unbounded_threadpool=False, num_parallel_calls=None):
                return replace(each, num_parallel_calls=calls) if effects(each.fn).steady else each
            case ir.Map(num_parallel_calls=ir.AUTOTUNE, use_unbounded_threadpool=False):
                return replace(each, num_parallel_calls=calls)
            case ir.Batch(num_parallel_calls=ir.AUTOTUNE) | ir.MemoizedMap(num_parallel_calls=ir.AUTOTUNE):
                return replace(each, num_parallel_calls=calls)
            case ir.Interleave(num_parallel_calls=ir.AUTOTUNE) if each.cycle_length != ir.AUTOTUNE:
                return replace(each, num_parallel_calls=calls)
        return each

    return trees.transform(node, fixed)


def _unattended(fixed: ir.Node) -> Any:
    """Build a pipeline whose iterators end without waiting for TensorFlow's AUTOTUNE thread.

    AUTOTUNE stays if it has a number left to choose, or the author has asked for it. TensorFlow's rewriting of the
    graph stays if it might change something: otherwise it doubles the time to make an iterator for nothing.
    """
    options = tf.data.Options()
    stages = list(trees.walk(fixed))
    # TensorFlow warns if an option is changed.
    asked_for = any(options.autotune.enabled is True for options in trees.options_of(fixed))
    if not asked_for and not any(map(_needs_autotune, stages)):
        options.autotune.enabled = False
        if all(isinstance(each, _NOT_REWRITTEN) for each in stages):
            options.experimental_optimization.apply_default_optimizations = False
    return build(fixed).with_options(options)


def _needs_autotune(node: ir.Node) -> bool:
    return isinstance(node, ir.Map | ir.Interleave) and node.num_parallel_calls == ir.AUTOTUNE


def _threads(tree: ir.Node) -> int:
    """Return how many threads run the functions: those of a pool that the author chose, or else one per core."""
    pools = (options.threading for options in trees.options_of(tree))
    chosen = next((pool.private_threadpool_size for pool in pools if pool.private_threadpool_size), None)
    return chosen or max(round(Machine.here().cores), 1)
