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
        value: -1 leaves the number to TensorFlow's AUTOTUNE; a thread pool of 0 is TensorFlow's own.
    """

    name: str
    field: str
    value: int


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
    known = [knob.name for _, knob in located]
    for name, value in values.items():
        _check(name, value, known)
    changes = {path: {knob.field: values[knob.name]} for path, knob in located if knob.name in values}
    return _rebuilt(tree, (), changes)


def _check(name: str, value: int, known: list[str]) -> None:
    if name not in known:
        raise KnobError(f"A knob must be one of {', '.join(known) or '(there are none)'}, but got {name!r}.")
    least = 0 if name.endswith(".size") else 1
    if isinstance(value, bool) or not isinstance(value, int) or not (value >= least or value == ir.AUTOTUNE):
        raise KnobError(f"{name} must be a whole number >= {least}, or -1 for AUTOTUNE, but got {value!r}.")
    if name.endswith(".size") and value == ir.AUTOTUNE:
        raise KnobError(f"{name} must be >= 0, where 0 is TensorFlow's own number, but got -1.")


_Path = tuple[int, ...]


def _located(tree: ir.Node) -> Iterator[tuple[_Path, Knob]]:
    seen: dict[str, int] = {}
    for path, node in _post_order(tree, ()):
        found = _knob_of(node)
        if found is None:
            continue
        label, field, value = found
        seen[label] = seen.get(label, 0) + 1
        suffix = f"#{seen[label]}" if seen[label] > 1 else ""
        yield path, Knob(f"{label}{suffix}.{field}", field, value)


def _post_order(node: ir.Node, path: _Path) -> Iterator[tuple[_Path, ir.Node]]:
    for position, child in enumerate(node.inputs):
        yield from _post_order(child, (*path, position))
    yield path, node


def _knob_of(node: ir.Node) -> tuple[str, str, int] | None:
    match node:
        case ir.Map(num_parallel_calls=int(value)):
            return f"map[{node.fn.name}]", "num_parallel_calls", value
        case ir.Interleave(num_parallel_calls=int(value)):
            return f"interleave[{node.fn.name}]", "num_parallel_calls", value
        case ir.Batch(num_parallel_calls=int(value)):
            return "batch", "num_parallel_calls", value
        case ir.Prefetch(buffer_size=int(value)):
            return "prefetch", "buffer_size", value
        case ir.ThreadPool(size=size):
            return "thread_pool", "size", size
    return None


def _rebuilt(node: ir.Node, path: _Path, changes: Mapping[_Path, Mapping[str, int]]) -> ir.Node:
    inputs = [_rebuilt(child, (*path, position), changes) for position, child in enumerate(node.inputs)]
    changed = node.on(*inputs) if inputs else node
    fields: Mapping[str, Any] = changes.get(path, {})
    return replace(changed, **fields)
