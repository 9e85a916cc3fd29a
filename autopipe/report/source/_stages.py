"""What makes each stage."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from autopipe.functions.function import Function
from autopipe.pipeline import ir
from autopipe.pipeline.methods import MAY_BE_AUTOMATIC, METHODS, is_default
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.report.references import window_size_of
from autopipe.report.source._functions import function
from autopipe.report.source._literals import constant, nest, spec_text
from autopipe.report.source._readers import name_of, reader
from autopipe.report.source._writer import Writer

__all__ = ["expression", "threads"]

_OLD_NAMES = frozenset({"experimental_deterministic", "experimental_threading"})
_NO_GLOBAL_SEED = 87654321


def expression(writer: Writer, node: ir.Node, inputs: list[str]) -> str:
    """Return what makes a node of the variables that hold its inputs."""
    match node:
        case ir.Source():
            return _source(writer, node)
        case ir.FilesReader(csv=None):
            return reader(node, inputs[0])
        case ir.Unary():
            return f"{inputs[0]}{_method(writer, node, inputs[0])}"
    return _join(node, inputs)


def _join(node: ir.Node, inputs: list[str]) -> str:
    match node:
        case ir.Zip():
            return f"tf.data.Dataset.zip({nest(node.structure, inputs)}{name_of(node)})"
        case ir.ChooseFrom(stop_on_empty=stop):
            options = "" if stop else ", stop_on_empty_dataset=False"
            return f"tf.data.Dataset.choose_from_datasets([{', '.join(inputs[1:])}], {inputs[0]}{options})"
        case ir.Concatenate():
            return f"{inputs[0]}.concatenate({inputs[1]}{name_of(node)})"
    raise TypeError(f"Every node must be written as code, but {type(node).__name__} is not.")


def _method(writer: Writer, node: ir.Unary, source: str) -> str:
    """Return the method that is called of the dataset in a variable, with its arguments."""
    match node:
        case ir.FilesReader():
            # It takes no dataset of names.
            return f".flat_map(lambda file: {reader(node, 'file')})"
        case ir.AssertCardinality(count=count):
            return f".apply(tf.data.experimental.assert_cardinality({count}))"
        case ir.GroupByWindow():
            return f".group_by_window({_grouping(writer, node)})"
        case ir.LegacyInterleave():
            return f".apply({_legacy_interleave(writer, node)})"
        case ir.MemoizedMap():
            return f".map({_of_numbered(writer, node)})"
        case ir.Scan():
            begin = writer.argument(id(node.fn.concrete), "initial_state", f"what {stage(node)} begins with")
            return f".scan({begin}, {function(writer, node, node.fn)})"
        case ir.PaddedBatch():
            return f".padded_batch({_padding(node, source)})"
        case ir.Shuffle():
            return f".shuffle({_shuffling(writer, node)})"
        case ir.Options():
            return _with_options(writer, list(_settings(node.options)))
        case ir.ThreadPool():
            return _with_options(writer, list(threads(node)))
    return _plain_method(writer, node)


def _source(writer: Writer, node: ir.Source) -> str:
    match node:
        case ir.Tensors():
            return f"tf.data.Dataset.from_tensors({writer.data(node)}{name_of(node)})"
        case ir.TensorSlices():
            return f"tf.data.Dataset.from_tensor_slices({writer.data(node)}{name_of(node)})"
        case ir.Range(start=start, stop=stop, step=step):
            kind = node.dataset.element_spec.dtype.name
            output = "" if kind == "int64" else f", output_type=tf.{kind}"
            return f"tf.data.Dataset.range({start}, {stop}{f', {step}' if step != 1 else ''}{output}{name_of(node)})"
    reason = _unwritten(node)
    what = f"{stage(node)} ({node.line or 'your code'}), and all before it{reason}"
    writer.missing(what)
    return writer.argument(id(node.dataset), "source", f"a dataset of {spec_text(node.dataset.element_spec)}: {what}")


def _unwritten(node: ir.Source) -> str:
    """Return why a source is not written."""
    match node:
        case ir.Opaque(reason=reason):
            return f": {reason}"
        case ir.Saved(path=path):
            return f": it reads {path}"
        case ir.RandomNumbers():
            return ": its numbers come from a seed of its own"
    return ": it runs Python code that autopipe cannot name"


def _plain_method(writer: Writer, node: ir.Node) -> str:
    """Return the call of a method of ``tf.data.Dataset``; what is as it is by default is not written."""
    name, first, more = METHODS[type(node)]
    given = [_value(writer, node, each) for each in first.split() if not is_default(node, each)]
    given += [f"{each}={_value(writer, node, each)}" for each in more.split() if not is_default(node, each)]
    return f".{name}({', '.join(given)}{name_of(node, bool(given))})"


def _of_numbered(writer: Writer, node: ir.MemoizedMap) -> str:
    """Return the arguments of a map that calls a function for elements with numbers."""
    writer.lines.append("# Called in every epoch anew, where autopipe keeps what was given for each number.")
    unbounded = ", use_unbounded_threadpool=True" if node.use_unbounded_threadpool else ""
    calls = f"num_parallel_calls={_value(writer, node, 'num_parallel_calls')}{unbounded}"
    if node.ahead or signature(node).element_spec != node.fn.output_spec:
        given = writer.argument(
            id(node.fn.concrete), "of_side", f"what {stage(node)} does with one side of (number, element) pairs"
        )
        return f"{given}, {calls}"
    element = "*element" if isinstance(node.fn.input_spec, tuple) else "element"
    called = function(writer, node, node.fn)
    called = f"({called})" if called.startswith("lambda") else called
    return f"lambda number, element: {called}({element}), {calls}"


def _value(writer: Writer, node: ir.Node, name: str) -> str:
    value = getattr(node, name)
    if isinstance(value, Function):
        return function(writer, node, value)
    return "tf.data.AUTOTUNE" if value == ir.AUTOTUNE and name in MAY_BE_AUTOMATIC else repr(value)


def _grouping(writer: Writer, node: ir.GroupByWindow) -> str:
    given = [function(writer, node, fn) for fn in (node.key_func, node.reduce_func)]
    size = window_size_of(node.window_size_func)
    if size is None:
        given.append(f"window_size_func={function(writer, node, node.window_size_func)}")
    else:
        given.append(f"window_size={size}")
    return f"{', '.join(given)}{name_of(node)}"


def _legacy_interleave(writer: Writer, node: ir.LegacyInterleave) -> str:
    sloppy = None if node.deterministic is None else not node.deterministic
    named = f"cycle_length={node.cycle_length}, block_length={node.block_length}, sloppy={sloppy}"
    ahead = f"buffer_output_elements={node.buffer_output_elements}"
    ahead += f", prefetch_input_elements={node.prefetch_input_elements}"
    return f"tf.data.experimental.parallel_interleave({function(writer, node, node.fn)}, {named}, {ahead})"


def _padding(node: ir.PaddedBatch, source: str) -> str:

    types = [part.dtype.name for part in signature(node.input).flat_specs]
    shapes = [f"tf.TensorShape({[None if size < 0 else size for size in shape]})" for shape in node.padded_shapes]
    values = [constant(value, kind) for value, kind in zip(node.padding_values, types, strict=True)]
    like = f"tf.nest.pack_sequence_as({source}.element_spec, ["
    remainder = ", drop_remainder=True" if node.drop_remainder else ""
    return (
        f"{node.batch_size}, padded_shapes={like}{', '.join(shapes)}]), "
        f"padding_values={like}{', '.join(values)}]){remainder}{name_of(node)}"
    )


def _shuffling(writer: Writer, node: ir.Shuffle) -> str:
    given = ["tf.data.UNKNOWN_CARDINALITY" if node.buffer_size == ir.ALL_ELEMENTS else str(node.buffer_size)]
    if node.while_filling is not None:
        writer.lines.append("# It waits for all elements in the first epoch too, in which autopipe mixes as they come.")
    if node.seeded:
        whole, own = node.seeds
        given.append(f"seed={own}")
        if whole != _NO_GLOBAL_SEED:
            writer.lines.append(f"# The same order takes tf.random.set_seed({whole}) before this.")
    if not node.reshuffle_each_iteration:
        given.append("reshuffle_each_iteration=False")
    return f"{', '.join(given)}{name_of(node)}"


def _with_options(writer: Writer, settings: list[str]) -> str:
    writer.lines += ["options = tf.data.Options()", *(f"options.{each}" for each in settings)]
    return ".with_options(options)"


def threads(node: ir.ThreadPool) -> Iterator[str]:
    """Yield the settings of a thread pool that are not TensorFlow's own."""
    if node.size:
        yield f"threading.private_threadpool_size = {node.size}"
    if node.max_intra_op_parallelism:
        yield f"threading.max_intra_op_parallelism = {node.max_intra_op_parallelism}"


def _settings(options: Any) -> Iterator[str]:
    """Yield what was set in the options of a dataset, or in a part of them."""
    usual = type(options)()
    for name, kind in vars(type(options)).items():
        if not isinstance(kind, property) or name in _OLD_NAMES:
            continue
        value = getattr(options, name)
        if isinstance(value, enum.Enum):
            text = f"tf.data.experimental.{type(value).__name__}.{value.name}"
        elif type(value).__module__ == type(options).__module__:
            yield from (f"{name}.{each}" for each in _settings(value))
            continue
        else:
            text = repr(value)
        if value != getattr(usual, name):
            yield f"{name} = {text}"
