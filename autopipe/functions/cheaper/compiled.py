"""The arithmetic at the end of a function, compiled by XLA: one pass over memory instead of one for each op.

TensorFlow runs ``(x / 255 + b - mean) / deviation`` as four kernels, each of which reads and writes a whole image. XLA
makes one loop of them (Sabne, "XLA: Compiling Machine Learning for Peak Performance", 2020). Draws stay outside, since
XLA draws other numbers, and so do ops that it would compute differently from TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import ops_with_effects
from autopipe.functions.analysis.failures import may_fail, ops_that_may_fail
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.parts.ending import cut_before_ending, decided_by_elements, takes_one_shape
from autopipe.functions.subgraph import (
    MUST_COMPILE,
    called_graphs,
    copy_into_trace,
    needed_ops,
    origin,
    specs,
    stand_ins,
    trace,
    with_called,
)

__all__ = ["compile_ending", "is_compiled"]

# Ops that each give the same under XLA up to rounding, also for infinities and NaN. XLA may simplify several of them,
# such as a logarithm of an exponential, so that an overflow in between may not happen there.
_ARITHMETIC = frozenset(
    "Abs Add AddV2 Ceil Cos Exp Floor Log Log1p Mul Neg RealDiv Round Rsqrt Sigmoid Sin Sqrt Square "
    "SquaredDifference Sub Tanh".split()
)
_ALIKE = _ARITHMETIC | frozenset(
    "BroadcastTo Cast ConcatV2 Const Equal ExpandDims Fill Greater GreaterEqual Identity IdentityN Less LessEqual "
    "LogicalAnd LogicalNot LogicalOr Maximum Mean Minimum NoOp NotEqual OneHot OnesLike Pack Pad PadV2 "
    "Placeholder Reshape ReverseV2 Select SelectV2 Shape Slice Split SplitV Squeeze StridedSlice Sum Tile Transpose "
    "Unpack ZerosLike".split()
)
# Ops whose results jump if floats differ in their last bits.
_DECISIONS = frozenset("Ceil Equal Floor Greater GreaterEqual Less LessEqual NotEqual Round".split())
_FIXED = frozenset({"Const"})
_GIVEN = _FIXED | {"Placeholder"}
_BRANCHES = frozenset("If PartitionedCall StatelessIf".split())
# These differ if their second operand is NaN.
_EXTREMES = frozenset("Maximum Minimum".split())
# With fewer numbers, or fewer passes over them, there is nothing to gain from fusing.
_LEAST_NUMBERS = 4096
_LEAST_PASSES = 2
# With this attribute, a branch is lowered to ops that XLA does not know.
_LOWERED = frozenset({"_lower_using_switch_merge"})
# For complex numbers that are zero, infinite or large, XLA gives other results.
_UNKNOWN_TO_XLA = frozenset({"complex128", "complex64", "resource", "string", "variant"})
_MOVING = frozenset("ExpandDims Reshape ReverseV2 Slice Squeeze StridedSlice Transpose".split())
# XLA computes intermediate results of these types with more bits.
_OF_FEW_BITS = frozenset({"bfloat16", "float16"})
# XLA cancels the first op with a later one that undoes it or divides by it: an overflow in between does not happen.
_UNDONE = {"Exp": frozenset("Log Mul RealDiv".split()), "Square": frozenset({"Sqrt"}), "Log": frozenset({"Exp"})}


@remembered
def compile_ending(fn: Function) -> tuple[Function, Function, Function] | None:
    """Return the part of a function before its arithmetic, the arithmetic, and the arithmetic compiled.

    ``None`` if it does not end in several ops on many numbers, or if one of these could fail, which XLA hides.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def augment(image):
    ...     return (image + tf.random.uniform(()) - 0.5) / 0.25
    >>> fn = function_of(tf.data.Dataset.from_tensors(tf.zeros((64, 64, 3))).map(augment))
    >>> first, rest, compiled = compile_ending(fn)
    >>> len(first.output_spec), is_compiled(rest), is_compiled(compiled)
    (2, False, True)
    """
    if is_compiled(fn):
        return None
    of_elements = decided_by_elements(fn)
    graph = fn.concrete.graph
    stay = {op for op in of_elements if not (_is_alike(graph, op) and takes_one_shape(op, of_elements))}
    cut = cut_before_ending(fn, of_elements, stay | ops_with_effects(fn) | (ops_that_may_fail(fn) & of_elements))
    if not cut:
        return None
    try:
        first, rest = split(fn, cut)
    except IllegalCutError:
        return None
    if may_fail(rest) or _passes(rest.concrete.graph) < _LEAST_PASSES:
        return None
    return first, rest, _compiled(rest)


@remembered
def is_compiled(fn: Function) -> bool:
    """Return whether a part of a function is compiled by XLA already, by its author or by us."""
    return any(node.attr[MUST_COMPILE].b for node in with_called(fn.concrete.graph.as_graph_def()))


def _is_alike(graph: Any, op: Any, given: frozenset[str] = _GIVEN) -> bool:
    """Return whether XLA and TensorFlow give the same for an op, including all ops in its branches.

    Args:
        graph: the graph of the op.
        op: the op.
        given: types of the ops whose floats are not computed here.
    """
    if any(tensor.dtype.name in _UNKNOWN_TO_XLA | _OF_FEW_BITS for tensor in (*op.inputs, *op.outputs)):
        return False
    if any(op.type in _UNDONE.get(_kind(each), ()) for each in op.inputs) or _divides_a_quotient(op):
        return False
    if op.type in _BRANCHES:
        bodies = called_graphs(graph, op)
        return all(
            body is not None
            and all(op.type not in _BRANCHES and _is_alike(body, op, _FIXED) for op in body.get_operations())
            for body in bodies
        )
    if op.type in _EXTREMES:
        return bool(origin(op.inputs[1]).op.type == "Const")
    if op.type in _DECISIONS and any(origin(each).op.type not in given for each in op.inputs if each.dtype.is_floating):
        return False
    return op.type in _ALIKE and not _makes_whole_numbers(op) and not _overflows_elsewhere(op)


def _kind(tensor: Any) -> str:
    """Return the type of the op that computes a tensor, past ops that only move it; ``"Square"`` if it squares."""
    tensor = origin(tensor)
    while tensor.op.type in _MOVING:
        tensor = origin(tensor.op.inputs[0])
    op = tensor.op
    squares = op.type == "SquaredDifference" or (op.type == "Mul" and origin(op.inputs[0]) is origin(op.inputs[1]))
    return "Square" if squares else str(op.type)


def _divides_a_quotient(op: Any) -> bool:
    """Return whether an op divides a quotient, or by one: XLA divides only once, by the product."""
    if op.type != "RealDiv":
        return False
    quotient, by_quotient = (origin(each).op for each in op.inputs)
    divisors = (op.inputs[1], quotient.inputs[1]) if quotient.type == "RealDiv" else ()
    computed = any(origin(each).op.type != "Const" for each in divisors)
    return bool(computed or by_quotient.type == "RealDiv")


def _makes_whole_numbers(op: Any) -> bool:
    """Return whether an op is a cast that saturates under XLA but wraps around, or is undefined, without it."""
    return bool(op.type == "Cast" and op.inputs[0].dtype.is_floating and op.outputs[0].dtype.is_integer)


def _overflows_elsewhere(op: Any) -> bool:
    """Return whether a sum overflows only under XLA, as for whole numbers, or only without it, as for halves."""
    small = op.inputs[0].dtype.name == "float16" if op.inputs else False
    return (op.type == "Mean" and not op.inputs[0].dtype.is_floating) or (op.type in ("Mean", "Sum") and small)


def _passes(graph: Any) -> int:
    """Return how many ops read and write a large tensor."""
    passes = 0
    for op in graph.get_operations():
        if op.type in _ARITHMETIC:
            passes += (op.outputs[0].shape.num_elements() or 0) >= _LEAST_NUMBERS
        passes += sum(_passes(body) for body in called_graphs(graph, op) if body is not None)
    return passes


def _compiled(rest: Function) -> Function:
    """Return the function with all its arithmetic in one compiled call; tensors that it only passes on stay outside."""
    graph = rest.concrete.graph
    outputs = rest.concrete.outputs
    inputs = list(rest.element_inputs)
    passed = {id(tensor) for tensor in inputs}
    computed = [tensor for tensor in outputs if id(origin(tensor)) not in passed and tensor.dtype != tf.string]
    needed = {id(tensor) for op in needed_ops(computed) for tensor in op.inputs}
    taken = [tensor for tensor in inputs if id(tensor) in needed]

    def arithmetic(*tensors: Any) -> list[Any]:
        known = stand_ins(taken, tensors)
        return copy_into_trace(graph, computed, known, without=_LOWERED)

    fused = tf.function(arithmetic, jit_compile=True, autograph=False)

    def whole(*tensors: Any) -> list[Any]:
        given = stand_ins(inputs, tensors)
        made = fused(*(given[tensor.ref()] for tensor in taken))
        return copy_into_trace(graph, outputs, given | stand_ins(computed, made))

    return trace(
        whole,
        specs(inputs),
        rest,
        name=f"compiled {rest.name}",
        input_spec=rest.input_spec,
        output_spec=rest.output_spec,
    )
