"""What the objects a function captures are used for: generators that are only drawn from, tables that never change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

__all__ = ["fixed_table_reads", "generator_ops"]

_STATE_OPS = frozenset("AssignAddVariableOp AssignVariableOp ReadVariableOp".split())
_SEEDS = frozenset({"counter", "key", "seed"})
_LOOKUPS = frozenset("LookupTableFindV2 LookupTableSizeV2".split())


def generator_ops(graph: Any) -> set[Any]:
    """Return the ops that read and advance variables which only hold the state of a random generator.

    Each random Keras layer has such a variable. A variable counts as one if the function assigns it, and its value only
    reaches that assignment and the seeds of stateless random ops.
    """
    found: set[Any] = set()
    for handle in _captured_resources(graph):
        users = set(handle.consumers())
        assigned = any(op.type.startswith("Assign") for op in users)
        if assigned and all(op.type in _STATE_OPS for op in users) and _only_seeds(graph, users):
            found |= users
    return found


def _only_seeds(graph: Any, users: set[Any]) -> bool:
    outputs = {id(tensor) for tensor in graph.outputs}
    waiting = [tensor for op in users for tensor in op.outputs]
    seen, draws = set(), False
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in outputs:
            return False
        for op in tensor.consumers():
            if op in users or op in seen:
                continue
            if op.type.startswith("StatelessRandom"):
                if not _is_seed(tensor, op):
                    return False
                draws = True
                continue
            if op.op_def.is_stateful:
                return False
            seen.add(op)
            waiting.extend(op.outputs)
    return draws


def _is_seed(tensor: Any, drawing: Any) -> bool:
    """Return whether a stateless draw uses a tensor only as its seed, and not as a bound or a shape."""
    names = [argument.name for argument in drawing.op_def.input_arg]
    taken = {name for name, each in zip(names, drawing.inputs, strict=True) if each is tensor}
    return taken <= _SEEDS


def fixed_table_reads(graph: Any) -> set[Any]:
    """Return the lookups in tables that can no longer be filled, such as a ``tf.lookup.StaticHashTable``.

    Neither a table's handle nor its lookups show its kind, but a static table rejects even an empty insertion.
    """
    found = set()
    for handle, live in _live_resources(graph):
        lookups = {op for op in handle.consumers() if op.type in _LOOKUPS}
        types = {(op.get_attr("Tin"), op.get_attr("Tout")) for op in lookups if op.type == "LookupTableFindV2"}
        if len(types) == 1 and _rejects_insertion(live, *types.pop()):
            found |= lookups
    return found


def _rejects_insertion(table: Any, key_type: Any, value_type: Any) -> bool:
    nothing = tf.constant([], key_type), tf.constant([], value_type)
    try:
        tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=nothing[0], values=nothing[1])
    except tf.errors.UnimplementedError:
        return True
    except tf.errors.OpError:
        return False
    return False


def _captured_resources(graph: Any) -> Iterable[Any]:
    return (handle for handle, _ in _live_resources(graph))


def _live_resources(graph: Any) -> Iterable[tuple[Any, Any]]:
    """Yield the handle inside the graph and the live one, for every captured resource."""
    for live, inside in graph.captures:
        if inside.dtype == tf.resource:
            yield inside, live
