"""How much of a proposal this machine allows: the threads it starts, and the elements it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.knobs import Knob, read_knobs, stages_of_knobs
from autopipe.pipeline.signature import signature
from autopipe.planning.memory.machine import Machine
from autopipe.tuning.search.distributions import AUTOMATIC, listed

__all__ = ["most_held", "most_threads", "within"]

# Each iterator has its own threads. There may be this many: those of the training, of its next epoch, of a validation,
# and one that is being destroyed.
_ITERATORS = 4
# If each map has its own threads, AUTOTUNE makes up to this many calls per thread of the pool, which has up to this
# many threads per core.
_CALLS_PER_THREAD = 10
_THREADS_PER_CORE = 32
_STARTS_THREADS = frozenset({"cycle_length", "num_parallel_calls", "size"})
_HOLDS_ELEMENTS = frozenset({"buffer_size", "cycle_length", "num_parallel_calls"})


def most_threads(knobs: Sequence[Knob], left: int, machine: Machine) -> dict[str, int]:
    """Return the largest value of each knob that decides how many threads there are, by its name.

    All knobs may have these values at once, in all iterators: TensorFlow ends the process if it cannot start a thread.
    The value that a knob has already, and 1, are always allowed.

    Args:
        knobs: those of the pipeline.
        left: how many threads the process can still start.
        machine: this machine, with its real number of cores.

    >>> machine = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")
    >>> knobs = [
    ...     Knob("map[load].num_parallel_calls", "num_parallel_calls", 8),
    ...     Knob("map[load].use_unbounded_threadpool", "use_unbounded_threadpool", 0, automatic=0, most=1, least=0),
    ...     Knob("prefetch.buffer_size", "buffer_size", 8),
    ...     Knob("thread_pool.size", "size", 0, automatic=0),
    ... ]
    >>> most_threads(knobs, 48, machine)
    {'map[load].num_parallel_calls': 8, 'map[load].use_unbounded_threadpool': 0, 'thread_pool.size': 6}
    """
    starting = [knob for knob in knobs if knob.field in _STARTS_THREADS]
    share = left // _ITERATORS // max(len(starting), 1)
    most = {knob.name: max(share, knob.value, 1) for knob in starting}
    are_enough = share >= _CALLS_PER_THREAD * _THREADS_PER_CORE * machine.cores
    switches = [knob for knob in knobs if knob.field == "use_unbounded_threadpool"]
    most |= {knob.name: 1 if are_enough else knob.value for knob in switches}
    return {knob.name: most[knob.name] for knob in knobs if knob.name in most}


def most_held(tree: ir.Node, room: int) -> dict[str, int]:
    """Return the largest value of each knob that decides how many elements are held, by its name.

    All knobs may have these values at once: a step that ends only when all elements are made would be too late to see
    that they do not fit. Elements whose types do not tell their size are left out. The value that a knob has already,
    and 1, are always allowed.

    Args:
        tree: the pipeline.
        room: bytes that the elements may take.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> images = tf.data.Dataset.range(9).map(lambda x: tf.zeros([1000]), num_parallel_calls=2, name="image")
    >>> most_held(extract(images.batch(8).prefetch(2)), 10**6)
    {'map[<lambda>].num_parallel_calls': 124, 'prefetch.buffer_size': 15}
    """
    stages = stages_of_knobs(tree)
    knobs = [knob for knob in read_knobs(tree) if knob.field in _HOLDS_ELEMENTS]
    sizes = {knob.name: _bytes_at_once(stages[knob.name]) for knob in knobs}
    known = {knob.name: (knob.value, size) for knob in knobs if (size := sizes[knob.name])}
    share = room // max(len(known), 1)
    return {name: max(share // size, value, 1) for name, (value, size) in known.items()}


def _bytes_at_once(stage: ir.Node) -> int:
    """Return the bytes a stage holds for each unit of its knob: the result and input of a call; 0 if unknown."""
    if isinstance(stage, ir.FilesReader):
        return 0
    made = _element_bytes(stage)
    taken = 0 if isinstance(stage, ir.Prefetch | ir.Shuffle) else sum(map(_element_bytes, stage.inputs))
    return made and made + taken


def _element_bytes(node: ir.Node) -> int:
    """Return the bytes of an element, for a batch those of a full one; 0 if the type does not tell."""
    rows = next((each.batch_size for each in trees.walk(node) if isinstance(each, ir.Batch)), None)
    total = 0
    for part in signature(node).flat_specs:
        if not isinstance(part, tf.TensorSpec) or part.shape.rank is None:
            return 0
        first, rest = part.shape[:1].as_list(), part.shape[1:]
        count = rows if first == [None] else math.prod(first)
        if count is None or not rest.is_fully_defined() or part.dtype in (tf.string, tf.variant, tf.resource):
            return 0
        total += count * math.prod(rest.as_list()) * int(part.dtype.size)
    return total


def within(most: Mapping[str, int], values: Mapping[str, int], space: Mapping[str, Any]) -> dict[str, int]:
    """Return the values, with each above its limit lowered to the largest value allowed, or left out if there is none.

    >>> from optuna.distributions import CategoricalDistribution
    >>> space = {"calls": CategoricalDistribution((-1, 1, 4, 64)), "size": CategoricalDistribution((0, 16, 64))}
    >>> within({"calls": 6, "size": 6}, {"calls": 64, "size": 64}, space)
    {'calls': 4}
    """
    found = {}
    for name, value in values.items():
        limit = most.get(name, value)
        possible = [value] if value <= limit else _up_to(limit, space[name])
        if possible:
            found[name] = max(possible)
    return found


def _up_to(limit: int, distribution: Any) -> list[int]:
    if getattr(distribution, "choices", None) is not None:
        return [value for value in listed(distribution) - AUTOMATIC if value <= limit]
    below = limit - distribution.low
    return [limit - below % distribution.step] if below >= 0 else []
