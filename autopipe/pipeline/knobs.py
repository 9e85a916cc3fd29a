"""The numbers a pipeline leaves open: parallel calls, buffer sizes, threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autopipe.errors import KnobError
from autopipe.pipeline import ir

__all__ = ["Knob", "read_knobs", "with_knobs"]


@dataclass(frozen=True)
class Knob:
    """A number that may change while the pipeline runs, without changing what it yields.

    Attributes:
        name: such as ``map[load].num_parallel_calls``; a second stage of the same name ends in ``#2``.
        field: the argument it sets: ``num_parallel_calls``, ``buffer_size`` or ``size``.
        value: the number now.
        automatic: the value that leaves the number to TensorFlow: -1 (AUTOTUNE), or 0 for the threads of a pool.
        most: the largest value TensorFlow accepts; ``None`` without a limit.
    """

    name: str
    field: str
    value: int
    automatic: int = ir.AUTOTUNE
    most: int | None = None

    def check(self, value: object) -> None:
        """Raise a :class:`~autopipe.errors.KnobError` unless the knob can have that value."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and (value == self.automatic or 1 <= value <= (self.most or value)):  # type: ignore[operator]
            return
        limit = f" and <= {self.most}" if self.most else ""
        raise KnobError(
            f"{self.name} must be a whole number >= 1{limit}, or {self.automatic} to leave it to TensorFlow, "
            f"but got {value!r}."
        )


def read_knobs(tree: ir.Node) -> tuple[Knob, ...]:
    """Return the knobs of a pipeline, those of its sources first.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> [knob.name for knob in read_knobs(extract(tf.data.Dataset.range(9).batch(2).prefetch(3)))]
    ['prefetch.buffer_size']
    """
    return tuple(knob for _, knob in _located(tree))


def with_knobs(tree: ir.Node, values: Mapping[str, int]) -> ir.Node:
    """Return the pipeline with some of its knobs set.

    Raises:
        KnobError: for a knob the pipeline does not have, or a value outside its range.
    """
    located = list(_located(tree))
    known = {knob.name: knob for _, knob in located}
    for name, value in values.items():
        if name not in known:
            raise KnobError(f"A knob must be one of {', '.join(known) or '(there are none)'}, but got {name!r}.")
        known[name].check(value)
    changes = {path: {knob.field: values[knob.name]} for path, knob in located if knob.name in values}
    return _rebuilt(tree, (), changes)


_Path = tuple[int, ...]


def _located(tree: ir.Node) -> Iterator[tuple[_Path, Knob]]:
    seen: dict[str, int] = {}
    for path, node in _post_order(tree, ()):
        knob = _knob_of(node)
        if knob is None:
            continue
        seen[knob.name] = seen.get(knob.name, 0) + 1
        suffix = f"#{seen[knob.name]}" if seen[knob.name] > 1 else ""
        yield path, replace(knob, name=f"{knob.name}{suffix}.{knob.field}")


def _post_order(node: ir.Node, path: _Path) -> Iterator[tuple[_Path, ir.Node]]:
    for position, child in enumerate(node.inputs):
        yield from _post_order(child, (*path, position))
    yield path, node


def _knob_of(node: ir.Node) -> Knob | None:
    """Return the knob of a stage, named as the stage is."""
    match node:
        case ir.Map(num_parallel_calls=int(calls)):
            return Knob(f"map[{node.fn.name}]", "num_parallel_calls", calls)
        case ir.Interleave(num_parallel_calls=int(calls), cycle_length=cycle):
            most = None if cycle == ir.AUTOTUNE else cycle
            return Knob(f"interleave[{node.fn.name}]", "num_parallel_calls", calls, most=most)
        case ir.Batch(num_parallel_calls=int(calls)):
            return Knob("batch", "num_parallel_calls", calls)
        case ir.Prefetch(buffer_size=size):
            return Knob("prefetch", "buffer_size", size)
        case ir.ThreadPool(size=size):
            return Knob("thread_pool", "size", size, automatic=0)
    return None


def _rebuilt(node: ir.Node, path: _Path, changes: Mapping[_Path, Mapping[str, int]]) -> ir.Node:
    inputs = [_rebuilt(child, (*path, position), changes) for position, child in enumerate(node.inputs)]
    changed = node.on(*inputs) if inputs else node
    fields: Mapping[str, Any] = changes.get(path, {})
    return replace(changed, **fields)
