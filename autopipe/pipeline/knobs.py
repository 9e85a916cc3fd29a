"""The numbers a pipeline leaves open: parallel calls, buffer sizes, threads, and datasets read in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import index
from typing import Any, SupportsIndex

from autopipe.arguments import is_truth
from autopipe.environment import processors
from autopipe.errors import KnobError
from autopipe.functions.analysis.order_inside import op_without_end
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import op_determinism_enabled
from autopipe.pipeline.knob_limits import largest_to_set

__all__ = [
    "Knob",
    "datasets_in_turn",
    "knob_values",
    "read_knobs",
    "stages_of_knobs",
    "used_knobs",
    "with_knobs",
    "with_thread_pool",
]

# TensorFlow's defaults: bytes of a reader's buffer, and processors for each dataset that an interleave with AUTOTUNE
# calls reads in turn.
_READ_BYTES = 256 * 1024
_PROCESSORS_PER_DATASET = 3
_THREAD_POOL = "thread_pool"


@dataclass(frozen=True)
class Knob:
    """A number that may change without changing what the pipeline yields, except for an order that is free anyway.

    Attributes:
        name: such as ``map[load].num_parallel_calls``; a second stage of the same name is ``map[load]#2``.
        field: the argument it sets, such as ``num_parallel_calls``.
        value: the number now.
        automatic: the value that leaves the number to TensorFlow: -1 is AUTOTUNE, and 0 sets no option; for a reader's
            buffer it is TensorFlow's default size. ``None`` if TensorFlow does not choose.
        most: the largest value allowed; ``None`` if only the limit of its name applies.
        least: the smallest value allowed, except ``automatic`` and the value now.
        live: whether it may change under an iterator that is being read. The others change from the next iterator on,
            since the state that is carried over depends on them.
    """

    name: str
    field: str
    value: int
    automatic: int | None = ir.AUTOTUNE
    most: int | None = None
    least: int = 1
    live: bool = True

    def accepts(self, value: int) -> bool:
        """Return whether the knob can have that value."""
        return value in (self.automatic, self.value) or self._is_within(value)

    def clipped(self, wanted: int) -> int:
        """Return the number nearest to the wanted one that the knob can have."""
        return max(self.least, min(wanted, self._largest))

    def check(self, value: object) -> None:
        """Raise a :class:`~autopipe.errors.KnobError` unless the knob can have that value."""
        with suppress(TypeError):
            # An array of several numbers, or the class of a number, also has __index__ but raises TypeError.
            if isinstance(value, SupportsIndex) and not is_truth(value) and self.accepts(index(value)):
                return
        limit = f" and <= {self._largest:,}"
        unset = self.automatic is not None and not self._is_within(self.automatic)
        automatic = f", or {self.automatic} to leave it to TensorFlow" if unset else ""
        raise KnobError(f"{self.name} must be a whole number >= {self.least}{limit}{automatic}, but got {value!r}.")

    def _is_within(self, value: int) -> bool:
        return self.least <= value <= self._largest

    @property
    def _largest(self) -> int:
        if self.most is not None:
            return self.most
        return largest_to_set(self.name)


def read_knobs(tree: ir.Node) -> tuple[Knob, ...]:
    """Return the knobs of a pipeline, those of its sources first.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> [knob.name for knob in read_knobs(extract(tf.data.Dataset.range(9).batch(2).prefetch(3)))]
    ['prefetch.buffer_size']
    """
    found: dict[tuple[int, str], Knob] = {}
    for node, knob in _located(tree):
        found.setdefault((id(node), knob.field), knob)
    return tuple(found.values())


def stages_of_knobs(tree: ir.Node) -> dict[str, ir.Node]:
    """Return the stages of a pipeline that have knobs, by the names of the knobs.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> stages = stages_of_knobs(extract(tf.data.Dataset.range(9).batch(2).prefetch(3)))
    >>> {name: type(stage).__name__ for name, stage in stages.items()}
    {'prefetch.buffer_size': 'Prefetch'}
    """
    return {knob.name: node for node, knob in _located(tree)}


def knob_values(tree: ir.Node) -> dict[str, int]:
    """Return the present values of the knobs of a pipeline, by their names.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> knob_values(extract(tf.data.Dataset.range(9).batch(2).prefetch(3)))
    {'prefetch.buffer_size': 3}
    """
    return {knob.name: knob.value for knob in read_knobs(tree)}


def used_knobs(tree: ir.Node) -> tuple[Knob, ...]:
    """Return the knobs without those of a thread pool that has nothing to run: trying them would waste time.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> batches = with_thread_pool(extract(tf.data.Dataset.range(9).batch(2)))
    >>> [knob.name for knob in read_knobs(batches)], used_knobs(batches)
    (['thread_pool.size', 'thread_pool.max_intra_op_parallelism'], ())
    """
    used = any(map(_may_use_threads, trees.walk(tree)))
    return tuple(knob for knob in read_knobs(tree) if used or not knob.name.startswith(f"{_THREAD_POOL}."))


def _may_use_threads(node: ir.Node) -> bool:
    unknown = type(node) is ir.Source or isinstance(node, ir.Opaque)
    return unknown or bool(trees.called_by(node)) or node.is_parallel


def with_knobs(tree: ir.Node, values: Mapping[str, int]) -> ir.Node:
    """Return the pipeline with some of its knobs set. What does not change stays the same object.

    Raises:
        KnobError: for a knob the pipeline does not have, or a value outside its range.
    """
    if not isinstance(values, Mapping):
        raise KnobError(f"Knobs must be values by their names, as {{'prefetch.buffer_size': 4}}, but got {values!r}.")
    located = list(_located(tree))
    known = {knob.name: knob for _, knob in located}
    for name, value in values.items():
        if name not in known:
            raise KnobError(f"A knob must be one of {', '.join(known) or '(there are none)'}, but got {name!r}.")
        known[name].check(value)
    # NumPy's numbers become Python's.
    numbers = {name: index(value) for name, value in values.items()}
    changes: dict[int, dict[str, Any]] = {}
    for node, knob in located:
        if numbers.get(knob.name, knob.value) != knob.value:
            changes.setdefault(id(node), {}).update(_arguments(node, knob, numbers[knob.name]))
    return _rebuilt(tree, changes)


def with_thread_pool(tree: ir.Node) -> ir.Node:
    """Return the pipeline with a thread pool at its end, unless its author chose one: its size is a knob.

    >>> from autopipe.pipeline.extract import extract
    >>> import tensorflow as tf
    >>> tree = with_thread_pool(extract(tf.data.Dataset.range(3)))
    >>> "thread_pool.size" in [knob.name for knob in read_knobs(tree)], with_thread_pool(tree) is tree
    (True, True)
    """
    there = any(isinstance(node, ir.ThreadPool) for node in trees.walk(tree))
    chosen = any(options.threading.private_threadpool_size is not None for options in trees.options_of(tree))
    return tree if there or chosen else ir.ThreadPool(input=tree)


def _located(tree: ir.Node) -> Iterator[tuple[ir.Node, Knob]]:
    """Yield each knob with its stage. A stage that the pipeline uses twice is yielded twice."""
    seen: dict[str, int] = {}
    for node in _post_order(tree):
        knobs = tuple(_knobs_of(node, tree))
        if not knobs:
            continue
        stage = knobs[0].name
        seen[stage] = seen.get(stage, 0) + 1
        suffix = f"#{seen[stage]}" if seen[stage] > 1 else ""
        for knob in knobs:
            yield node, replace(knob, name=f"{stage}{suffix}.{knob.field}")


def _post_order(node: ir.Node) -> Iterator[ir.Node]:
    for child in node.inputs:
        yield from _post_order(child)
    yield node


def _knobs_of(node: ir.Node, tree: ir.Node) -> Iterator[Knob]:
    """Yield the knobs of one stage, named as the stage is."""
    match node:
        case ir.Map(num_parallel_calls=int(calls)):
            stage = f"map[{node.fn.name}]"
            yield Knob(stage, "num_parallel_calls", calls)
            unbounded, live = int(node.use_unbounded_threadpool), not _is_batched_at_once(node, tree)
            yield Knob(stage, "use_unbounded_threadpool", unbounded, automatic=0, most=1, least=0, live=live)
        case ir.MemoizedMap(num_parallel_calls=int(calls)):
            yield Knob(f"memoized_map[{node.fn.name}]", "num_parallel_calls", calls)
        case ir.Interleave(num_parallel_calls=int()):
            order_is_free = _order_is_free(node, tree)
            yield from _interleave_knobs(node, order_is_free, may_mix_more=order_is_free and _all_come(node, tree))
        case ir.Batch(num_parallel_calls=int(calls)):
            yield Knob("batch", "num_parallel_calls", calls)
        case ir.Prefetch(buffer_size=size):
            yield Knob("prefetch", "buffer_size", size)
        case ir.Shuffle() if _may_grow(node) and not _order_is_fixed(tree):
            least = _declared(node.buffer_size)
            yield Knob("shuffle", "buffer_size", int(node.buffer_size), None, least=least, live=False)
        case ir.FilesReader(csv=None, buffer_size=size):
            size = _READ_BYTES if size is None else size
            yield Knob(f"{node.kind}_files", "buffer_size", size, _READ_BYTES, least=0)
        case ir.ThreadPool(size=size):
            yield Knob(_THREAD_POOL, "size", size, automatic=0)
            if all(options.threading.max_intra_op_parallelism is None for options in trees.options_of(node)):
                yield Knob(_THREAD_POOL, "max_intra_op_parallelism", node.max_intra_op_parallelism, automatic=0)


def _is_batched_at_once(mapped: ir.Map, tree: ir.Node) -> bool:
    """Return whether TensorFlow fuses a map and its batch, which it does only in its usual pool."""
    return any(isinstance(node, ir.Batch) and trees.last_stage(node.input) is mapped for node in trees.walk(tree))


def _interleave_knobs(node: ir.Interleave, order_is_free: bool, may_mix_more: bool) -> Iterator[Knob]:
    """Yield the knobs of an interleave. It makes at most one call for each dataset that it reads in turn.

    It may mix more datasets than its author declared, in shorter turns, and never fewer: a shuffle that follows may be
    too small to mix sorted elements.
    """
    assert node.num_parallel_calls is not None
    stage, cycle = f"interleave[{node.fn.name}]", datasets_in_turn(node)
    fixed = processors() if _declared(node.cycle_length) == ir.AUTOTUNE else cycle
    yield Knob(stage, "num_parallel_calls", node.num_parallel_calls, most=None if order_is_free else fixed)
    if may_mix_more:
        least = max(_declared(node.cycle_length), 1)
        yield Knob(stage, "cycle_length", cycle, automatic=None, least=least, live=False)
        longest = _declared(node.block_length)
        if longest > 1:
            yield Knob(stage, "block_length", node.block_length, automatic=1, most=longest, live=False)


def _all_come(node: ir.Interleave, tree: ir.Node) -> bool:
    """Return whether all elements of a stage are taken; otherwise their order decides which are."""
    if op_without_end(node.fn) is not None:
        return False
    leaving_out = filter(_leaves_some_out, trees.walk(tree))
    return not any(below is node for each in leaving_out for below in trees.walk(each))


def _leaves_some_out(node: ir.Node) -> bool:
    if isinstance(node, ir.Take):
        return not node.takes_all
    return isinstance(node, ir.ChooseFrom | ir.Shard | ir.Skip | ir.TakeWhile | ir.Zip)


def datasets_in_turn(node: ir.Interleave) -> int:
    """Return how many datasets a parallel interleave reads in turn, which may depend on its calls at once."""
    assert node.num_parallel_calls is not None
    if node.cycle_length != ir.AUTOTUNE:
        return int(node.cycle_length)
    if node.num_parallel_calls == ir.AUTOTUNE:
        return math.ceil(processors() / _PROCESSORS_PER_DATASET)
    return min(node.num_parallel_calls, processors())


def _order_is_free(node: ir.Interleave, tree: ir.Node) -> bool:
    """Return whether the author lets the elements of a stage come in any order, and fixes no order anywhere."""
    if _order_is_fixed(tree):
        return False
    if node.deterministic is not None:
        return not node.deterministic
    return trees.frees_order(tree)


def _order_is_fixed(tree: ir.Node) -> bool:
    """Return whether the author asks for one order of the whole pipeline."""
    return op_determinism_enabled() or trees.fixes_order(tree)


def _may_grow(shuffle: ir.Shuffle) -> bool:
    """Return whether a shuffle may hold more elements than its author declared: its order is new in each epoch.

    Elements of one epoch must not come in another, so nothing below it repeats.
    """
    repeats = any(isinstance(node, ir.Repeat) for node in trees.walk(shuffle))
    return shuffle.buffer_size > 1 and shuffle.reshuffle_each_iteration and not shuffle.seeded and not repeats


class _Set(int):
    """A changed argument that remembers the value its author declared."""

    declared: int

    @classmethod
    def to(cls, value: int, declared: int) -> _Set:
        made = cls(value)
        made.declared = declared
        return made


def _declared(argument: int) -> int:
    return argument.declared if isinstance(argument, _Set) else argument


def _arguments(node: ir.Node, knob: Knob, value: int) -> dict[str, Any]:
    """Return the arguments of a stage that a knob decides."""
    match node:
        case ir.Shuffle():
            return {knob.field: _Set.to(value, knob.least)}
        case ir.Interleave() if knob.field in ("cycle_length", "block_length"):
            declared = knob.least if knob.field == "cycle_length" else knob.most
            assert declared is not None
            return {knob.field: _Set.to(value, declared)}
        case ir.Interleave(cycle_length=ir.AUTOTUNE) if knob.field == "num_parallel_calls":
            # Otherwise TensorFlow would derive another cycle from the calls, and give another order.
            return {knob.field: value, "cycle_length": _Set.to(datasets_in_turn(node), ir.AUTOTUNE)}
        case ir.Map() if knob.field == "use_unbounded_threadpool":
            return {knob.field: bool(value)}
    return {knob.field: value}


def _rebuilt(tree: ir.Node, changes: Mapping[int, Mapping[str, Any]]) -> ir.Node:
    """Return the tree with arguments changed, by the identity of the node; a node that is used twice stays one."""

    def rebuilt(node: ir.Node, inputs: list[ir.Node]) -> ir.Node:
        moved = trees.on(node, *inputs)
        fields: Mapping[str, Any] = changes.get(id(node), {})
        return replace(moved, **fields) if fields else moved

    return trees.fold(tree, rebuilt)
