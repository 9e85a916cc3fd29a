"""Copies of parts of a traced function into the function that is being traced.

Captured objects stay live: a copied op reads the same variable, table or generator as the original. Functions that
ops call (branches, loops, Keras layers) are carried over as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from functools import lru_cache
from inspect import unwrap
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.source import copy_source

__all__ = [
    "CALLS",
    "MUST_COMPILE",
    "branches",
    "called_graphs",
    "constant",
    "copy_into_trace",
    "fed_by",
    "needed_ops",
    "origin",
    "spec_kind",
    "specs",
    "stand_ins",
    "trace",
    "with_called",
]

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""The ops that only call a function."""
MUST_COMPILE = "_XlaMustCompile"
"""The attribute of calls that XLA compiles."""

# Ops that compute nothing, and that TensorFlow removes.
_PASSING_ON = frozenset({"Identity", "IdentityN", "PreventGradient", "StopGradient"})


def needed_ops(
    wanted: Iterable[Any], known: Iterable[Any] = (), *, done: Set[Any] = frozenset(), waits: bool = True
) -> set[Any]:
    """Return the ops that must run to compute tensors, given tensors that are known.

    Args:
        wanted: symbolic tensors or ops of one graph.
        known: tensors of it that need not be computed.
        done: ops of it that have run already; an op that only waits for one of them does not need it.
        waits: whether an op also needs those it only waits for.
    """
    known_ids = {id(tensor) for tensor in known}
    waiting = [each for each in wanted if id(each) not in known_ids]
    found: set[Any] = set()
    while waiting:
        each = waiting.pop()
        op = getattr(each, "op", each)
        if op in found:
            continue
        found.add(op)
        if waits:
            waiting.extend(each for each in op.control_inputs if each not in done)
        waiting.extend(tensor for tensor in op.inputs if id(tensor) not in known_ids)
    return found


def fed_by(tensors: Iterable[Any]) -> set[Any]:
    """Return the ops that depend on tensors."""
    waiting, found = list(tensors), set()
    while waiting:
        for op in waiting.pop().consumers():
            if op not in found:
                found.add(op)
                waiting.extend(op.outputs)
    return found


def origin(tensor: Any) -> Any:
    """Return the tensor that a chain of removable ops, such as ``Identity``, passes on."""
    while tensor.op.type in _PASSING_ON or _keeps_shape(tensor.op):
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _keeps_shape(op: Any) -> bool:
    """Return whether an op reshapes a tensor to the shape that it is known to have."""
    if op.type != "Reshape" or not op.outputs[0].shape.is_fully_defined():
        return False
    return bool(op.inputs[0].shape.is_fully_defined() and op.inputs[0].shape == op.outputs[0].shape)


def called_graphs(graph: Any, op: Any) -> list[Any]:
    """Return the graphs of the functions that an op of a graph calls; ``None`` for one that was not traced here."""
    names = [name for attribute in op.node_def.attr.values() for name in _functions_named(attribute)]
    return [_graph_named(graph, name) for name in names]


def branches(graph: Any, op: Any) -> tuple[Any, Any]:
    """Return the graphs of the branches of a ``tf.cond``, the true branch first; ``None`` for one not traced here."""
    then, otherwise = (op.get_attr(f"{name}_branch").name for name in ("then", "else"))
    return _graph_named(graph, then), _graph_named(graph, otherwise)


def _graph_named(graph: Any, name: str) -> Any:
    return getattr(graph._get_function(name), "graph", None)


def with_called(definition: Any) -> Iterator[Any]:
    """Yield the description of every op in the definition of a graph, and in all functions that it calls."""
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def constant(tensor: Any) -> Any:
    """Return the value of a tensor that a graph makes of constants; ``None`` if it depends on anything else."""
    return tf.get_static_value(tensor)


def specs(tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Return the ``tf.TensorSpec`` of each flat tensor, as :func:`trace` takes it."""
    return tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors)


def spec_kind(spec: Any) -> str:
    """Return the name of the kind of value that a spec describes.

    >>> import tensorflow as tf
    >>> spec_kind(tf.RaggedTensorSpec([None, None]))
    'RaggedTensor'
    """
    return type(spec).__name__.strip("_").removesuffix("Spec")


def stand_ins(tensors: Iterable[Any], made: Iterable[Any]) -> dict[Any, Any]:
    """Return the replacement of each tensor of a graph in another one, as :func:`copy_into_trace` takes it."""
    return {old.ref(): new for old, new in zip(tensors, made, strict=True)}


def copy_into_trace(
    graph: Any,
    wanted: Sequence[Any],
    known: Mapping[Any, Any],
    *,
    also: Iterable[Any] = (),
    done: Set[Any] = frozenset(),
    replace: Mapping[Any, Callable[..., Sequence[Any]]] | None = None,
    same: Mapping[Any, Any] | None = None,
    on_copy: Callable[[Any], None] = lambda op: None,
    without: Set[str] = frozenset(),
) -> list[Any]:
    """Copy the ops that compute tensors into the function being traced, and return the copied tensors.

    Args:
        graph: the graph of a traced function.
        wanted: tensors of it.
        known: replacements of tensors of it in the new function, from :func:`stand_ins`. Captured objects need not be
            among them.
        also: ops of it that must run too, though no wanted tensor depends on them.
        done: ops of it that have run already, in a function before this one.
        replace: ops of it, each with what is called in place of a copy: it takes the new inputs and returns the
            outputs.
        same: ops that are not copied, each with the earlier op that gives the same.
        on_copy: called with every new op.
        without: attributes of ops that their copies do not get.
    """
    same, replace = same or {}, replace or {}
    new = dict(known)
    for live, inside in graph.captures:
        new.setdefault(inside.ref(), live)
    known_tensors = [reference.deref() for reference in new]
    needed = needed_ops([*wanted, *also], known_tensors, done=done)
    copies: dict[Any, Any] = {}
    current = tf.compat.v1.get_default_graph()
    for op in graph.get_operations():
        if op not in needed or op.type == "Placeholder":
            continue
        inputs = [new[tensor.ref()] for tensor in op.inputs]
        before = [copies[each] for each in op.control_inputs if each in copies]
        outputs: Sequence[Any]
        with tf.control_dependencies(before):
            if op in same:
                copy, outputs = copies.get(same[op]), [new[tensor.ref()] for tensor in same[op].outputs]
            elif op in replace:
                outputs = replace[op](*inputs)
                copy = outputs[0].op
            else:
                copy = _copy(op, inputs, graph, current, without)
                on_copy(copy)
                outputs = copy.outputs
        # A captured constant with the same value is among the known tensors, and has no copy.
        if copy is not None:
            copies[op] = copy
        for old, made in zip(op.outputs, outputs, strict=True):
            new.setdefault(old.ref(), made)
    return [new[tensor.ref()] for tensor in wanted]


def _copy(op: Any, inputs: list[Any], graph: Any, current: Any, without: Set[str]) -> Any:
    attributes = {key: value for key, value in op.node_def.attr.items() if key not in without}
    for attribute in attributes.values():
        for name in _functions_named(attribute):
            _carry_function(name, graph, current)
    types = [tensor.dtype for tensor in op.outputs]
    with tf.device(op.device) if op.device else nullcontext():
        copy = _create_op()(current, op.type, inputs, types, name=op.name, attrs=attributes, op_def=op.op_def)
    copy_source(op, copy)
    for old, made in zip(op.outputs, copy.outputs, strict=True):
        made.set_shape(old.shape)
        _carry_handle_data(old, made)
    return copy


@lru_cache(maxsize=1)
def _create_op() -> Callable[..., Any]:
    """Return ``tf.Graph.create_op`` without its decorator, whose check for deprecated arguments is slow."""
    undecorated: Callable[..., Any] = unwrap(tf.Graph.create_op)
    return undecorated


def _functions_named(attribute: Any) -> list[str]:
    if attribute.HasField("func"):
        return [attribute.func.name]
    return [function.name for function in attribute.list.func]


def _carry_function(name: str, graph: Any, current: Any) -> None:
    function = graph._get_function(name)
    if function is not None:
        current._add_function_recursive(function)


def _carry_handle_data(old: Any, made: Any) -> None:
    from tensorflow.python.ops import handle_data_util

    handle_data_util.copy_handle_data(old, made)


def trace(
    body: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    like: Function,
    *others: Function,
    name: str,
    input_spec: Any,
    output_spec: Any,
) -> Function:
    """Trace a function of flat tensors, made of parts of another.

    Args:
        body: takes flat tensors and gives flat tensors.
        inputs: the ``tf.TensorSpec`` of each tensor it takes.
        like: the function its parts are from, and whose place in the user's file it gets.
        others: more functions its parts are from; all are kept alive.
        name: what it is called in reports.
        input_spec: the structure of the element it takes.
        output_spec: the structure of the element it gives; shapes in it may become more precise.
    """
    concrete = tf.function(lambda *tensors: list(body(*tensors)), autograph=False).get_concrete_function(*inputs)
    return Function(
        concrete=concrete,
        input_spec=input_spec,
        output_spec=_with_shapes_of(concrete.outputs, output_spec),
        element_types=tuple(tensor.dtype for tensor in concrete.outputs),
        element_shapes=tuple(tensor.shape for tensor in concrete.outputs),
        name=name,
        location=like.location,
        keeps_alive=(like, *others),
    )


def _with_shapes_of(outputs: Sequence[Any], spec: Any) -> Any:
    """Return a structure with the most precise known shapes of its plain tensors."""
    parts = tf.nest.flatten(spec)
    if len(parts) != len(outputs):
        return spec
    known = (
        tf.TensorSpec(part.shape.merge_with(output.shape), part.dtype)
        if type(part) is tf.TensorSpec and part.is_compatible_with(output)
        else part
        for part, output in zip(parts, outputs, strict=True)
    )
    return tf.nest.pack_sequence_as(spec, list(known))
