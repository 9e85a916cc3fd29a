"""What stands for the function of a stage."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from autopipe.functions.function import Function, describe_callable
from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage
from autopipe.report.references import callable_of, import_path, looks_up, public_name, reader_of
from autopipe.report.source._literals import spec_text
from autopipe.report.source._readers import reader
from autopipe.report.source._writer import Writer
from autopipe.rules import catalogue

__all__ = ["function"]


def function(writer: Writer, node: ir.Node, fn: Function) -> str:
    """Return what stands for the function of a stage: a name that is imported, plain code, or an argument."""
    called = callable_of(fn)
    if called is None:
        return _gathering(writer, fn) or _made(writer, node, fn)
    several = reader_of(called)
    if several is not None:
        return f"lambda file: {reader(several, 'file')}"
    public = public_name(called)
    if public:
        return public
    imported = import_path(called)
    return _given(writer, node, called) if imported is None else _imported(writer, *imported)


def _imported(writer: Writer, module: str, path: str) -> str:
    root, *inner = path.split(".")
    if (module, root) not in writer.named:
        alias = writer.named[module, root] = writer.name(root)
        writer.imports.setdefault(module, []).append(root if alias == root else f"{root} as {alias}")
    return ".".join([writer.named[module, root], *inner])


def _given(writer: Writer, node: ir.Node, called: Any) -> str:
    """Return the argument for a function that cannot be imported."""
    name, location = describe_callable(called)
    if str(getattr(called, "__module__", "")).startswith("tensorflow."):
        writer.missing(f"the function {name} inside of TensorFlow, at {node.line or stage(node)}")
    is_lambda = name == "<lambda>"
    what = f"{'the lambda' if is_lambda else f'the function {name}'} of {location or node.line or stage(node)}"
    wanted = f"lambda_{location.replace('.py:', '_')}" if location and is_lambda else name
    return writer.argument(id(called), wanted, f"{what}, which cannot be imported")


def _gathering(writer: Writer, fn: Function) -> str | None:
    """Return the code of a function that looks rows of arrays up, if it does so with those of one source."""
    sources = (node for node in trees.walk(writer.rewriting.before) if isinstance(node, ir.TensorSlices))
    source = next((each for each in sources if fn.name == "gather" and looks_up(fn, each.components)), None)
    if source is None:
        return None
    data = writer.data(source)
    convert = f"{data} = tf.nest.map_structure(tf.convert_to_tensor, {data})"
    if convert not in writer.lines:
        writer.lines.append(convert)
    return f"lambda rows: tf.nest.map_structure(lambda array: tf.gather(array, rows), {data})"


def _made(writer: Writer, node: ir.Node, fn: Function) -> str:
    """Return the argument for a function that autopipe made, and say in the code what it is."""
    name = re.compile(rf"(?<!\w){re.escape(fn.name)}(?!\w)")
    steps = (step for step in writer.rewriting.steps if name.search(step.after) and not name.search(step.before))
    by = {rule.name: f", by {rule.name}: {rule.shape}" for rule in catalogue()}
    why = "".join(by.get(step.rule, "") for step in islice(steps, 1))
    what = f'the function "{fn.name}" of {fn.location or node.line or "the source"}, which autopipe made{why}'
    if fn.concrete not in writer.named:
        writer.missing(what)
    takes, gives = spec_text(fn.input_spec), spec_text(fn.output_spec)
    return writer.argument(fn.concrete, fn.name, f"not written, see below; it takes {takes} and gives {gives}")
