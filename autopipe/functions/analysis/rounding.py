"""Whether functions round alike, and whether a difference in rounding can become more than that."""

from __future__ import annotations

from collections.abc import Set
from typing import Any
from weakref import WeakKeyDictionary

from autopipe.functions.analysis.common_subexpressions import computed_once
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.regrouped import (
    fused_op,
    joined_names,
    names_given,
    names_needed_once,
    regrouped,
    regrouped_ops,
)
from autopipe.functions.subgraph import called_graphs, constant, fed_by, origin

__all__ = ["jumps", "jumps_after", "jumps_after_arithmetic", "jumps_after_regrouping", "rounds_alike"]

# Ops whose result may jump, or become NaN, when their input changes by a rounding error.
_JUMPS = frozenset(
    "Acos Acosh Angle Asin Atan2 Atanh Bitcast Ceil Cholesky CropAndResize DivNoNan DrawBoundingBoxes "
    "DrawBoundingBoxesV2 Eig Erfinv ExtractGlimpse ExtractGlimpseV2 FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars "
    "FakeQuantWithMinMaxVarsPerChannel Floor FloorDiv FloorMod "
    "ImageProjectiveTransformV2 ImageProjectiveTransformV3 Inv Mod MulNoNan Ndtri Qr QuantizeAndDequantize "
    "QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 Reciprocal RGBToHSV Rint Round "
    "ScaleAndTranslate SelfAdjointEigV2 Sign StatelessParameterizedTruncatedNormal StatelessRandomGammaV2 "
    "StatelessRandomGammaV3 StatelessRandomPoisson Svd TruncateMod UnsortedSegmentSum Xdivy Xlog1py Xlogy".split()
)
# Ops that are NaN below 0. Rounding can bring only a difference there, not a sum of squares or a spectrum.
_OF_POSITIVES = frozenset("Log Rsqrt Sqrt".split())
_DOWN_TO_MINUS_1 = frozenset("Cos Erf Neg Sin Softsign Tanh".split())
_QUOTIENTS = frozenset("Div RealDiv".split())
# Ops whose result may be a difference too small to be above 0, if their input is one.
_KEEP_DIFFERENCES = frozenset(
    "Cast ConcatV2 ExpandDims GatherV2 Max Maximum Min Minimum Mul Neg Pack RealDiv Reshape Select SelectV2 Slice "
    "Squeeze StridedSlice Transpose".split()
)
# Sums are differences if a term may be below 0.
_SUMS = frozenset(
    "Add AddN AddV2 BatchMatMulV2 BiasAdd Conv2D Cumsum DepthwiseConv2dNative Einsum MatMul Mean Sum".split()
)
_NEVER_BELOW_0 = frozenset(
    "Abs ComplexAbs Exp Relu Relu6 Rsqrt Sigmoid Softmax Softplus Sqrt Square SquaredDifference".split()
)
# Ops whose results are never below 0 if their operands are not.
_STAYING_ABOVE = _KEEP_DIFFERENCES - {"Neg"} | _SUMS | {"Identity", "Prod"}
_GIVEN = frozenset({"Const", "Placeholder"})
_KNOWN_ABOVE: WeakKeyDictionary[Any, frozenset[Any]] = WeakKeyDictionary()
# Ops that look at the shape of floats, not at their values.
_OF_SHAPES = frozenset("Rank Shape ShapeN Size".split())


def rounds_alike(whole: Function, *parts: Function) -> bool:
    """Return whether parts that follow each other give the same bits as one function that does the work of all.

    >>> import tensorflow as tf
    >>> from autopipe.functions.joined.compose import compose
    >>> from autopipe.pipeline.extract import extract
    >>> node = extract(tf.data.Dataset.range(3).map(lambda x: tf.cast(x, tf.float32) + 0.1).map(lambda x: x + 0.2))
    >>> rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)
    False
    """
    graph, graphs = whole.concrete.graph, [part.concrete.graph for part in parts]
    if any(each == whole for part in parts for each in part.keeps_alive):
        # Several parts of a function that was cut may repeat an op, so the number of pairs shows nothing.
        kinds = (joined_names, names_given, names_needed_once)
        return all(set(names(graph)) == set().union(*map(names, graphs)) for names in kinds)
    if regrouped(graph) != sum(map(regrouped, graphs)):
        return False
    # If it sees a constant, TensorFlow computes the sums and products of a pair in another order.
    if any(map(_gives_constant, parts[:-1])) and any(map(regrouped, graphs[1:])):
        return False
    if len(names_given(graph)) != sum(len(names_given(each)) for each in graphs):
        return False
    # TensorFlow computes repeated expressions only once.
    needed_once = [len(names_needed_once(computed_once(each).fn.concrete.graph)) for each in (whole, *parts)]
    return needed_once[0] == sum(needed_once[1:])


def jumps_after(fn: Function, rounding: Set[Any]) -> str | None:
    """Return the type of an op as :func:`jumps` does, if it comes after ops that may round differently.

    >>> import tensorflow as tf
    >>> from autopipe.functions.regrouped import regrouped_ops
    >>> from autopipe.pipeline.extract import extract
    >>> floats = tf.data.Dataset.from_tensors(0.5)
    >>> fn = extract(floats.map(lambda x: tf.cast(tf.floor(x) + x + x, tf.int32))).fn
    >>> jumps_after(fn, regrouped_ops(fn.concrete.graph))
    'Cast'
    """
    graph = fn.concrete.graph
    reached = fed_by(tensor for op in rounding for tensor in op.outputs if _rounds(tensor))
    reached |= {op for op in rounding if called_graphs(graph, op)}
    return next((found for op in graph.get_operations() if op in reached and (found := _jump(graph, op))), None)


def jumps_after_regrouping(fn: Function) -> str | None:
    """Return such an op after sums or products that may be regrouped in a part, or in a larger function.

    Also return one that is itself computed differently there.
    """
    graph = fn.concrete.graph
    return fused_op(graph) or jumps_after(fn, regrouped_ops(graph))


def jumps_after_arithmetic(fn: Function) -> str | None:
    """Return such an op after any floats that the function computes, for when all of it is computed differently.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> floats = tf.data.Dataset.from_tensors([0.5])
    >>> [jumps_after_arithmetic(extract(floats.map(f)).fn) for f in (tf.round, lambda x: tf.round(x * 0.1))]
    [None, 'Round']
    """
    ops = fn.concrete.graph.get_operations()
    return jumps_after(fn, {op for op in ops if op.type not in _GIVEN and any(map(_rounds, op.outputs))})


@remembered
def jumps(fn: Function) -> str | None:
    """Return the type of an op whose result may jump if floats differ in their last bits; ``None`` if there is none.

    Such ops are comparisons, casts to whole numbers, conversions to text, and code that TensorFlow cannot see.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> floats = tf.data.Dataset.from_tensors([0.5])
    >>> [jumps(extract(floats.map(f)).fn) for f in (tf.sin, tf.argmax)]
    [None, 'ArgMax']
    """
    graph = fn.concrete.graph
    reached = fed_by(filter(_rounds, fn.element_inputs))
    return next((found for op in graph.get_operations() if op in reached and (found := _jump(graph, op))), None)


def _gives_constant(fn: Function) -> bool:
    """Return whether a function gives floats that are the same for every element."""
    given = fed_by(fn.concrete.graph.inputs)
    made = (origin(tensor).op for tensor in fn.concrete.graph.outputs if _rounds(tensor))
    return any(op.type != "Placeholder" and op not in given for op in made)


def _jump(graph: Any, op: Any) -> str | None:
    if op.type == "Placeholder" or not any(map(_rounds, op.inputs)):
        return None
    bodies = called_graphs(graph, op)
    if bodies:
        inner = (_jump(body, each) for body in bodies if body is not None for each in body.get_operations())
        return next(filter(None, inner), None if all(body is not None for body in bodies) else op.type)
    if op.type in _OF_POSITIVES and _may_fall_below(op.inputs[0]):
        return str(op.type)
    if op.type in _QUOTIENTS and _may_fall_below(op.inputs[1]):
        return str(op.type)
    if op.type == "Log1p" and _may_fall_below(op.inputs[0], negated=True):
        return str(op.type)
    if op.type == "Pow" and not _is_whole(op.inputs[1]):
        return str(op.type)
    if op.type in _JUMPS or (op.type not in _OF_SHAPES and not all(map(_rounds, op.outputs))):
        return str(op.type)
    return None


def _may_fall_below(tensor: Any, *, negated: bool = False) -> bool:
    """Return whether rounding may bring a number below 0 that mathematically is not: it comes from a difference.

    Args:
        tensor: the number.
        negated: whether 1 is added to it: then a negated number is a difference, too.
    """
    waiting, seen = [tensor], set(_never_below_0(tensor.graph))
    while waiting:
        op = origin(waiting.pop()).op
        if negated and op.type == "Maximum" and any(_is_constant_above(origin(each).op) for each in op.inputs):
            continue
        if op.type == "Sub" or (op.type in _SUMS and op not in seen) or (negated and _reaches_minus_1(op)):
            return True
        if op.type in _KEEP_DIFFERENCES and op not in seen:
            seen.add(op)
            waiting.extend(each for each in op.inputs if _rounds(each))
    return False


def _never_below_0(graph: Any) -> Set[Any]:
    """Return the ops that are certainly never below 0, by their own kind or by that of all their operands."""
    if graph not in _KNOWN_ABOVE:
        found: set[Any] = set()
        for op in graph.get_operations():
            made_of = [each.op for each in op.inputs if _rounds(each)]
            stays = op.type in _STAYING_ABOVE and made_of and found.issuperset(made_of)
            if stays or op.type in _NEVER_BELOW_0 or _is_square(op) or _is_constant_above(op) or _is_count(op):
                found.add(op)
        _KNOWN_ABOVE[graph] = frozenset(found)
    return _KNOWN_ABOVE[graph]


def _reaches_minus_1(op: Any) -> bool:
    """Return whether an op gives numbers down to -1, or may make its operands negative."""
    factors = (constant(each) for each in op.inputs) if op.type in ("Mul", "RealDiv") else ()
    return op.type in _DOWN_TO_MINUS_1 or any(each is not None and bool((each < 0).any()) for each in factors)


def _is_square(op: Any) -> bool:
    return op.type == "Mul" and origin(op.inputs[0]) is origin(op.inputs[1])


def _is_constant_above(op: Any) -> bool:
    value = constant(op.outputs[0]) if op.type == "Const" and op.outputs[0].dtype.is_floating else None
    return value is not None and bool((value >= 0).all())


def _is_count(op: Any) -> bool:
    """Return whether an op converts unsigned whole numbers to floats."""
    if op.type != "Cast" or _rounds(op.inputs[0]):
        return False
    return bool(op.inputs[0].dtype.is_unsigned or op.inputs[0].dtype.is_bool)


def _is_whole(exponent: Any) -> bool:
    """Return whether an exponent is a known whole number >= 0, so that any number has this power."""
    value = constant(exponent)
    return value is not None and bool((value >= 0).all() and (value == value.round()).all())


def _rounds(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)
