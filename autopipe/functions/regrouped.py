"""Pairs of ops that TensorFlow computes differently from how they are written if both are in one function."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from autopipe.functions.subgraph import CALLS, called_graphs, constant, needed_ops, origin

__all__ = ["fused_op", "joined_names", "joined_ops", "names_given", "names_needed_once", "regrouped", "regrouped_ops"]

_SUMS = frozenset("Add AddN AddV2".split())
# Monotonic functions: TensorFlow replaces the maximum of their results by their result for the maximum.
_MONOTONIC = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh Ceil Elu Erf Erfc Exp Expm1 Floor Log Log1p Relu Relu6 Rint Rsqrt Selu Sigmoid "
    "Sign Sinh Softplus Softsign Sqrt Tanh".split()
)
_ROUNDING_NOTHING = frozenset("Ceil Floor Relu Relu6 Rint Sign".split())
# Functions that are NaN outside of their domain.
_OF_SOME_NUMBERS = frozenset("Acos Acosh Asin Atanh Log Log1p Rsqrt Sqrt".split())
_EXTREMES = frozenset(
    "Max MaxPool MaxPool3D MaxPoolV2 Min SegmentMax SegmentMin UnsortedSegmentMax UnsortedSegmentMin".split()
)
# Ops that pass on values, in another place or shape.
_MOVING = frozenset(
    "BatchToSpaceND CheckNumerics DepthToSpace ExpandDims Identity PreventGradient Reshape ReverseV2 Roll Snapshot "
    "SpaceToBatchND SpaceToDepth Squeeze StopGradient Transpose".split()
)
# Ops that may be fused with the next op, or that let it be fused with the one before them.
_CHANGED_WITH_THE_NEXT = frozenset("BiasAdd Pow".split())
_NORMALIZING = frozenset("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3".split())
_PRODUCTS_OF_MATRICES = frozenset("BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul".split())
_CONVOLUTIONS = frozenset("Conv2D Conv3D DepthwiseConv2dNative".split())
_PLACES_OF_EXTREMES = frozenset("ArgMax ArgMin MaxPoolWithArgmax".split())


def regrouped(graph: Any, *, across_calls: bool = True) -> int:
    """Return how many pairs of ops TensorFlow may compute in another order or form than written, rounding differently.

    In ``image + a + b`` it adds ``a + b`` first if they are small; products likewise. It does so only inside one
    function: if functions are joined or cut, the last bits are the same only if no such pair is joined or cut.

    Args:
        graph: the graph of a function.
        across_calls: whether to count the pairs that a call may make, whatever it calls.
    """
    pairs = 0
    for op in graph.get_operations():
        for tensor in op.inputs:
            if (across_calls or not _meets_call(tensor, op)) and _is_regrouped(tensor, op):
                pairs += 1
        bodies = filter(None, called_graphs(graph, op))
        pairs += sum(regrouped(body, across_calls=across_calls) for body in bodies)
    return pairs


def regrouped_ops(graph: Any) -> set[Any]:
    """Return the later ops of those pairs, and those that call a function with such a pair."""
    found = set()
    for op in graph.get_operations():
        called = (body for body in called_graphs(graph, op) if body is not None)
        if any(_is_regrouped(each, op) for each in op.inputs) or any(map(regrouped, called)):
            found.add(op)
    return found


def joined_ops(graph: Any) -> set[Any]:
    """Return both ops of each of those pairs."""
    return {each for tensor, op in _pairs(graph) for each in (op, origin(tensor).op, _moved(tensor).op)}


def joined_names(graph: Any) -> set[tuple[str, str]]:
    """Return the names of both ops of each of those pairs. Those of copies are the same."""
    return {(origin(tensor).op.name, op.name) for tensor, op in _pairs(graph)}


def names_needed_once(graph: Any) -> list[tuple[str, str]]:
    """Return the pairs in which no other op needs the earlier one: some are only then computed differently."""
    needed = needed_ops([*graph.outputs, *graph.control_outputs])
    given = {origin(tensor).name for tensor in graph.outputs}

    def uses(tensor: Any) -> Iterator[Any]:
        for op in tensor.consumers():
            if op in needed:
                yield from uses(op.outputs[0]) if op.type == "Identity" else [op]

    return [
        (origin(tensor).op.name, op.name)
        for tensor, op in _pairs(graph)
        if origin(tensor).name not in given and len(list(islice(uses(origin(tensor)), 2))) == 1
    ]


def names_given(graph: Any) -> list[tuple[str, str]]:
    """Return the pairs whose later op gives a result of the function: TensorFlow does not change those."""
    given = {origin(tensor).op for tensor in graph.outputs}
    return [(origin(tensor).op.name, op.name) for tensor, op in _pairs(graph) if op in given]


def _pairs(graph: Any) -> Iterator[tuple[Any, Any]]:
    for op in graph.get_operations():
        yield from ((tensor, op) for tensor in op.inputs if _is_regrouped(tensor, op))


def fused_op(graph: Any) -> str | None:
    """Return the type of an op that TensorFlow may fuse with one before it, with an entirely different result.

    It turns the logarithm of a softmax into one op, which is finite where the two give minus infinity. It looks up the
    position of a maximum before a monotonic function: if that makes several values equal, the position differs.
    """
    for op in graph.get_operations():
        if any(_is_fused(tensor, op) for tensor in op.inputs):
            return str(op.type)
        for body in filter(None, called_graphs(graph, op)):
            if (inner := fused_op(body)) is not None:
                return inner
    return None


def _is_regrouped(tensor: Any, op: Any) -> bool:
    earlier, later = origin(tensor).op.type, op.type
    if later in _EXTREMES | _PLACES_OF_EXTREMES and earlier in _MONOTONIC:
        return _takes_extreme_first(tensor, op)
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return False
    if _meets_call(tensor, op) or later == "Pow" or later in _NORMALIZING:
        return bool(earlier != "Placeholder")
    if earlier in _CHANGED_WITH_THE_NEXT or earlier in _NORMALIZING or _adds_to_product(origin(tensor).op):
        return later not in _MOVING
    match earlier, later:
        case ("Mul", "Mul") | ("Sqrt", "RealDiv") | (("Sigmoid" | "Tanh" | "AddN"), "Mul"):
            return True
        case "Mul", _ if later in _SUMS and _have_common_factor(op):
            return True
        case _, "Reciprocal":
            return bool(_moved(tensor).op.type == "Reciprocal")
        case _, "Conv2D" | "Conv3D":
            image = _moved(tensor)
            return tensor is op.inputs[0] and (image.op.type == "AddN" or _is_folded(image, origin(op.inputs[1])))
        case (("Transpose" | "ConjugateTranspose"), _) if later in _PRODUCTS_OF_MATRICES:
            return True
    if earlier in _PRODUCTS_OF_MATRICES | _CONVOLUTIONS and later in _SUMS | {"BiasAdd"}:
        return True
    return (_adds(origin(tensor).op) and _adds(op)) or _is_fused(tensor, op)


def _adds(op: Any) -> bool:
    """Return whether an op adds, or becomes an addition or subtraction since an operand is negated."""
    return op.type in _SUMS | {"Neg"} or (op.type == "Sub" and any(origin(each).op.type == "Neg" for each in op.inputs))


def _adds_to_product(op: Any) -> bool:
    """Return whether an op adds to a product of matrices, or a convolution, as a bias is added."""
    return op.type in _SUMS and any(origin(each).op.type in _PRODUCTS_OF_MATRICES | _CONVOLUTIONS for each in op.inputs)


def _have_common_factor(added: Any) -> bool:
    """Return whether a sum has products with a common factor, which TensorFlow factors out."""
    products = [origin(each).op for each in added.inputs]
    if any(product.type != "Mul" for product in products):
        return False
    factors = [{id(origin(each)) for each in product.inputs} for product in products]
    return bool(set.intersection(*factors))


def _moved(tensor: Any) -> Any:
    """Return the tensor whose values a chain of ops has moved, in which each is used only by the next."""
    while tensor.op.type in _MOVING and len(tensor.consumers()) == 1:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_folded(image: Any, weights: Any) -> bool:
    """Return whether a constant factor of the image is folded into constant weights."""
    if image.op.type != "Mul" or weights.op.type != "Const" or len(image.consumers()) != 1:
        return False
    return any(origin(each).op.type == "Const" and each.shape.rank == 0 for each in image.op.inputs)


def _takes_extreme_first(tensor: Any, op: Any) -> bool:
    """Return whether TensorFlow takes the extreme before a monotonic function, whose result no other op may need."""
    earlier = origin(tensor).op.type
    seen = op.type in _PLACES_OF_EXTREMES or earlier not in _ROUNDING_NOTHING
    return seen and tensor is op.inputs[0] and _is_needed_once(tensor)


def _is_needed_once(tensor: Any) -> bool:
    while len(tensor.consumers()) == 1:
        if tensor.op.type != "Identity":
            return True
        (tensor,) = tensor.op.inputs
    return False


def _meets_call(tensor: Any, op: Any) -> bool:
    return origin(tensor).op.type in CALLS or op.type in CALLS


def _is_fused(tensor: Any, op: Any) -> bool:
    earlier = origin(tensor).op
    if op.type in _PLACES_OF_EXTREMES:
        return tensor is op.inputs[0] and earlier.type in _MONOTONIC
    if op.type in _EXTREMES:
        return earlier.type in _OF_SOME_NUMBERS
    match earlier.type, op.type:
        case "Softmax", "Log":
            return True
        case (("Add" | "AddV2"), "Log"):
            return all(map(_may_be_one, earlier.inputs))
        case "Exp", "Sub":
            return _may_be_one(op.inputs[1])
    return False


def _may_be_one(tensor: Any) -> bool:
    value = constant(tensor)
    return value is None or bool((value == 1).all())
