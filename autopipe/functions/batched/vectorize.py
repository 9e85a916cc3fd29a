"""A function of one element -> the same function of a batch of elements.

The method is that of Agarwal and Ganichev, "Auto-vectorizing TensorFlow graphs: Jacobians, auto-batching and
beyond" (2019), as TensorFlow ships it in ``tf.vectorized_map``. Its while-loop fallback is never used: a batch that
loops over its elements inside gains nothing and hides it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.batched.batched_ops import add_batched_form, is_batched_wrongly
from autopipe.functions.batched.parse import parse_batch, parsing_op, ragged_parts, sparse_parts
from autopipe.functions.cheaper.compiled import is_compiled
from autopipe.functions.function import Function
from autopipe.functions.memo import RefusalError, remembered
from autopipe.functions.subgraph import (
    called_graphs,
    copy_into_trace,
    fed_by,
    needed_ops,
    origin,
    spec_kind,
    stand_ins,
    trace,
)

__all__ = ["NotVectorizableError", "vectorize", "why_not_vectorizable"]

# Ops that may fail on their operands, but compute nothing themselves.
_CHECKS = frozenset("Assert CheckNumerics CheckNumericsV2".split())


class NotVectorizableError(RefusalError):
    """The function has no batched form; the message says which op is in the way.

    Attributes:
        op_type: the type of the op that has no batched form, where it is one op's fault.
    """

    def __init__(self, message: str, op_type: str | None = None) -> None:
        super().__init__(message)
        self.op_type = op_type


@remembered
def vectorize(fn: Function, batch_size: int | None) -> Function:
    """Return the function that maps a batch of elements as ``fn`` maps each of them.

    Args:
        fn: a function without effects, of dense tensors whose shapes are fully known.
        batch_size: the static size of the batch dimension; ``None`` when the last batch may be smaller.

    Raises:
        NotVectorizableError: if the function is of another kind, or an op of it has no batched form.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.from_tensor_slices([[1., 2.]]).map(lambda row: row * 2))
    >>> vectorize(tree.fn, None).concrete(tf.constant([[1., 2.], [3., 4.]]))[0].numpy().tolist()
    [[2.0, 4.0], [6.0, 8.0]]
    """
    _refuse_effects(fn)
    _refuse_changing_shapes(fn)
    _refuse_settled_checks(fn)
    _refuse_wrong_forms(fn)
    batch = tf.TensorShape([batch_size])
    inputs = [tf.TensorSpec(batch + tensor.shape, tensor.dtype) for tensor in fn.element_inputs]
    try:
        with _quiet_logging():
            vectorized = trace(
                lambda *batches: _batched(fn, batches, batch),
                inputs,
                fn,
                name=f"vectorized {fn.name}",
                input_spec=_batched_spec(fn.input_spec, batch),
                output_spec=_batched_spec(fn.output_spec, batch),
            )
    except (ValueError, TypeError, NotImplementedError, AttributeError, tf.errors.OpError) as refused:
        op_type = _missing_op(refused)
        reason = f"its op {op_type} has no batched form" if op_type else _why(refused)
        raise NotVectorizableError(reason, op_type) from refused
    return replace(vectorized, rows_apart=True)


def why_not_vectorizable(fn: Function, batch_size: int | None) -> str | None:
    """Return why :func:`vectorize` refuses a function; ``None`` if it does not.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> words = tf.data.Dataset.from_tensors("a")
    >>> [why_not_vectorizable(function_of(words.map(fn)), None) for fn in (tf.strings.upper, tf.io.decode_compressed)]
    [None, 'its op DecodeCompressed has no batched form']
    """
    try:
        vectorize(fn, batch_size)
    except NotVectorizableError as reason:
        return str(reason)
    return None


def _batched(fn: Function, batches: tuple[Any, ...], batch: Any) -> list[Any]:
    """Return the batched outputs: parsed at once, computed from what was parsed, or computed from the inputs."""
    known = stand_ins(fn.element_inputs, batches)
    parsing = parsing_op(fn)
    if parsing is not None:
        known |= stand_ins(parsing.outputs, parse_batch(fn, parsing, batches))
    checks = fn.concrete.graph.control_outputs
    outputs: list[Any] = []
    for output, spec in zip(fn.concrete.outputs, tf.nest.flatten(fn.output_spec), strict=True):
        parts = _parsed_parts(parsing, output, spec)
        if parsing is None or not parts:
            outputs.append(None if checks else known.get(origin(output).ref()))
            continue
        tensors = [known[parsing.outputs[part].ref()] for part in parts]
        outputs.append(_packed(tensors, spec))
    _fill_computed(fn, outputs, known)
    return [
        made if made.dtype == tf.variant else tf.ensure_shape(made, batch + tensor.shape)
        for made, tensor in zip(outputs, fn.concrete.outputs, strict=True)
    ]


def _parsed_parts(parsing: Any | None, output: Any, spec: Any) -> tuple[int, ...] | None:
    """Return the outputs of the parsing op that a sparse or ragged output is made of, if it is one."""
    if parsing is None:
        return None
    if isinstance(spec, tf.SparseTensorSpec):
        return sparse_parts(output, parsing)
    return ragged_parts(output, parsing) if isinstance(spec, tf.RaggedTensorSpec) else None


def _packed(parts: Sequence[Any], spec: Any) -> Any:
    """Return a sparse or ragged batch as datasets pass it on: one variant for each element."""
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.io.serialize_sparse(tf.SparseTensor(*parts), tf.variant)
    values, splits = parts
    splits = tf.cast(splits, spec.row_splits_dtype)
    return tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[splits], rt_dense_values=values, batched_input=True)


def _fill_computed(fn: Function, outputs: list[Any], known: Mapping[Any, Any]) -> None:
    """Compute the outputs that are still missing by the batched forms of their ops."""
    graph = fn.concrete.graph
    checks = graph.control_outputs
    missing = [place for place, made in enumerate(outputs) if made is None]
    if not missing and checks:
        raise NotVectorizableError(f"{fn} checks what it parses and passes on, which a batch of it would not")
    if not missing:
        return
    wanted = [fn.concrete.outputs[place] for place in missing]
    needed = needed_ops([*wanted, *checks], [reference.deref() for reference in known])
    taken = {id(tensor) for tensor in wanted}.union(id(tensor) for op in needed for tensor in op.inputs)
    used = [reference for reference in known if id(reference.deref()) in taken]
    _refuse_ragged_parts(used)
    used = used or [fn.element_inputs[0].ref()]

    def one(elements: tuple[Any, ...]) -> tuple[Any, ...]:
        stands_for = dict(zip(used, elements, strict=True))
        copies: list[Any] = []
        made = copy_into_trace(graph, wanted, stands_for, also=checks, on_copy=copies.append)
        for copy in copies:
            add_batched_form(copy)
        # Ops that no output waits for are not converted, but run only for the first element.
        with tf.control_dependencies([copy for copy in copies if checks and copy.op_def.is_stateful]):
            return tuple(map(tf.identity, made))

    made = tf.vectorized_map(one, tuple(known[reference] for reference in used), fallback_to_while_loop=False)
    for place, tensor in zip(missing, made, strict=True):
        outputs[place] = tensor


def _refuse_ragged_parts(used: Iterable[Any]) -> None:
    for reference in used:
        shape = reference.deref().shape
        if not shape.is_fully_defined():
            raise NotVectorizableError(f"what it parses has tensors of shape {shape}, which may differ")


def _refuse_effects(fn: Function) -> None:
    """Two elements of a batch must not share one random draw, and state must change once per element."""
    found = effects(fn)
    if not found.pure:
        raise NotVectorizableError(f"{fn} {found.describe()}, which in a batch may not happen once for each element")
    if is_compiled(fn):
        raise NotVectorizableError(f"a part of {fn} is compiled by XLA, and would no longer be")


def _refuse_settled_checks(fn: Function) -> None:
    """Refuse ``Assert(False)`` in a branch: a batch runs both branches, one of them perhaps for no element."""
    if _has_settled_check(fn.concrete.graph, fn.element_inputs):
        raise NotVectorizableError(f"a branch of {fn} checks what does not depend on the element")


def _has_settled_check(graph: Any, given: Iterable[Any], *, in_branch: bool = False) -> bool:
    varying = {id(tensor) for tensor in given}
    varying |= {id(tensor) for op in fed_by(given) for tensor in op.outputs}
    for op in graph.get_operations():
        if in_branch and op.type in _CHECKS and id(op.inputs[0]) not in varying:
            return True
        inside = in_branch or any(id(tensor) in varying for tensor in op.inputs[:1])
        for body in filter(None, called_graphs(graph, op)):
            operands = op.inputs[-len(body.inputs) :] if body.inputs else ()
            given = [mine for theirs, mine in zip(operands, body.inputs, strict=False) if id(theirs) in varying]
            if _has_settled_check(body, given, in_branch=inside):
                return True
    return False


def _refuse_wrong_forms(fn: Function) -> None:
    parsing = parsing_op(fn)
    for op in fn.concrete.graph.get_operations():
        if op is not parsing and (wrong := _batched_wrongly(fn.concrete.graph, op)) is not None:
            raise NotVectorizableError(f"its op {wrong} has no batched form", op.type)


def _batched_wrongly(graph: Any, op: Any, *, in_call: bool = False) -> str | None:
    """Return the type of an op that would be batched wrongly: the op itself, or one in a function it calls."""
    if is_batched_wrongly(op, in_call=in_call):
        return str(op.type)
    inner = (
        _batched_wrongly(body, each, in_call=True)
        for body in filter(None, called_graphs(graph, op))
        for each in body.get_operations()
    )
    return next(filter(None, inner), None)


def _refuse_changing_shapes(fn: Function) -> None:
    """Only elements of one shape can be stacked before the function as well as after it; what it parses is excepted."""
    for part in tf.nest.flatten(fn.input_spec):
        _refuse_changing_shape(fn, "takes", part)
    given = tf.nest.flatten(fn.output_spec)
    if len(given) != len(fn.concrete.outputs):
        raise NotVectorizableError(f"{fn} gives None, which is not a plain tensor")
    parsing = parsing_op(fn)
    for output, part in zip(fn.concrete.outputs, given, strict=True):
        if not _parsed_parts(parsing, output, part):
            _refuse_changing_shape(fn, "gives", part)


def _refuse_changing_shape(fn: Function, side: str, part: Any) -> None:
    if not isinstance(part, tf.TensorSpec):
        raise NotVectorizableError(f"{fn} {side} a {spec_kind(part)}, which is not a plain tensor")
    if not part.shape.is_fully_defined():
        raise NotVectorizableError(f"{fn} {side} tensors of shape {part.shape}, which may differ")


def _batched_spec(spec: Any, batch: Any) -> Any:
    def batched(part: Any) -> Any:
        if isinstance(part, tf.RaggedTensorSpec):
            return tf.RaggedTensorSpec(batch + part.shape, part.dtype, part.ragged_rank + 1, part.row_splits_dtype)
        return type(part)(batch + part.shape, part.dtype)

    return tf.nest.map_structure(batched, spec)


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keep TensorFlow from printing a page about an op it cannot convert: the refusal says it in a line."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _missing_op(error: BaseException) -> str | None:
    """Return which op stands in the way, from the page TensorFlow writes about it."""
    found = re.search(r"No (?:pfor vectorization|converter) defined for (\w+)", str(error))
    return found[1] if found else None


def _why(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"TensorFlow cannot batch it ({lines[-1][:160]})" if lines else "TensorFlow cannot batch it"
