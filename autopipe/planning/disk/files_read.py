"""Which files a pipeline reads, and what shows that they have changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.file_ops import READERS, READERS_OF_EACH
from autopipe.functions.function import Function
from autopipe.functions.subgraph import copy_into_trace, specs, stand_ins, trace, with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.cache_files import writing_none

__all__ = ["UnknownContentError", "file_states"]

_MOST_FILES = 200_000
# The clock of file times has ticks up to this long; two changes within one tick look like one.
_TICK_SECONDS = 0.02
# Ops whose first input has the names.
_READS = READERS | {"ReadFile"}


class UnknownContentError(Exception):
    """It is not certain which elements a pipeline gives; the message says why."""


def file_states(tree: ir.Node) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield the name, size, and times of last modification and change of every file that a pipeline reads.

    The part of the pipeline that gives the names is run.

    Raises:
        UnknownContentError: if the files cannot be listed, or are not files of this machine.

    >>> import tempfile, tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"three lines"), file.flush()
    ...     lines = tf.data.TextLineDataset(file.name)
    ...     [size for name, size, *times in file_states(extract(lines))]
    [11]
    """
    seen: set[bytes] = set()
    newest = 0
    for number, name in enumerate(_names(tree)):
        if number >= _MOST_FILES:
            raise UnknownContentError(f"it reads more than {_MOST_FILES:,} files")
        if name not in seen:
            seen.add(name)
            found = _stat(name)
            newest = max(newest, found.st_ctime_ns)
            yield name, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    # A change from here on shows in the times of a file only after their clock has ticked.
    time.sleep(min(max(newest / 1e9 + _TICK_SECONDS - time.time(), 0), _TICK_SECONDS))


def _names(tree: ir.Node) -> Iterator[bytes]:
    for node in trees.walk(tree):
        if isinstance(node, ir.FilesReader):
            yield from _elements(node.input)
        for fn in trees.called_by(node):
            if effects(fn).file_reads:
                (source,) = node.inputs
                yield from _elements(ir.Map(input=source, fn=_names_function(fn), num_parallel_calls=ir.AUTOTUNE))


def _elements(names: ir.Node) -> Iterator[bytes]:
    try:
        for element in build(writing_none(names)).as_numpy_iterator():
            yield from np.ravel(tf.nest.flatten(element)[0]).tolist()
    except tf.errors.OpError as error:
        raise UnknownContentError(f"the names of its files could not be listed ({error.message[:200]})") from error


def _names_function(fn: Function) -> Function:
    """Return a function that gives the names of the files that another function reads for an element."""
    graph = fn.concrete.graph
    names = _names_read(fn)

    def body(*tensors: Any) -> tuple[Any]:
        found = copy_into_trace(graph, names, stand_ins(fn.element_inputs, tensors))
        return (tf.concat([tf.reshape(each, [-1]) for each in found], 0),)

    output = (tf.TensorSpec([None], tf.string),)
    name = f"names in {fn.name}"
    return trace(body, specs(fn.element_inputs), fn, name=name, input_spec=fn.input_spec, output_spec=output)


def _names_read(fn: Function) -> list[Any]:
    """Return the tensors in a function that hold the names of the files it reads."""
    graph = fn.concrete.graph
    definition = graph.as_graph_def()
    library = {function.signature.name: function for function in definition.library.function}
    reads = [op.inputs[0] for op in graph.get_operations() if op.type in _READS]
    for op in graph.get_operations():
        for body in _called(op.node_def, library):
            reads.extend(_passed(op, body, node.input[0]) for node in body.node_def if node.op in _READS)
    found = sum(node.op in effects(fn).file_reads for node in with_called(definition))
    if None in reads or len(reads) != found:
        raise UnknownContentError(f"which files {fn} reads is decided where autopipe cannot look")
    return reads


def _called(node: Any, library: Mapping[str, Any]) -> list[Any]:
    names = [attribute.func.name for attribute in node.attr.values() if attribute.HasField("func")]
    return [library[name] for name in names if name in library]


def _passed(op: Any, body: Any, name: str) -> Any | None:
    """Return the tensor that a reader of several files takes their names from; ``None`` if that is unknown."""
    arguments = [argument.name for argument in body.signature.input_arg]
    if op.type not in READERS_OF_EACH or op.inputs[0].op.type != "TensorSliceDataset" or name not in arguments:
        return None
    components = list(op.inputs[0].op.inputs)
    position = arguments.index(name)
    return components[position] if position < len(components) else op.inputs[1 + position - len(components)]


def _stat(name: bytes) -> os.stat_result:
    try:
        found = os.stat(name)
    except (OSError, ValueError) as error:
        raise UnknownContentError(f"{os.fsdecode(name)!r} cannot be looked at on this machine ({error})") from error
    if not stat.S_ISREG(found.st_mode):
        raise UnknownContentError(f"{os.fsdecode(name)!r} is not a file")
    return found
