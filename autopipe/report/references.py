"""How code can refer to the function of a stage: by its import, by TensorFlow's public name, or not at all."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.subgraph import constant, origin
from autopipe.pipeline import ir

__all__ = ["apart", "callable_of", "import_path", "looks_up", "public_name", "reader_of", "window_size_of"]

_GROUPING = "tensorflow.python.data.ops.group_by_window_op"
_PUBLIC = ("", "data", "io", "image", "strings", "math", "audio", "signal")


def callable_of(fn: Function) -> Callable[..., Any] | None:
    """Return the user's function; ``None`` for one that autopipe made."""
    wrapper = fn.keeps_alive[0] if fn.keeps_alive else None
    if wrapper is None or isinstance(wrapper, Function):
        return None
    # TensorFlow keeps what the user gave to map() here; without it the function becomes an argument.
    called: Callable[..., Any] | None = getattr(wrapper, "_func", None)
    # Of what groups elements it keeps a function that calls the user's, and converts what that gives.
    held = _held_by(called, _GROUPING)
    return held.get("key_func") or held.get("window_size_func") or called


def window_size_of(fn: Function) -> int | None:
    """Return the number that TensorFlow made the function of a window's size from; ``None`` for others."""
    size = constant(_held_by(callable_of(fn), _GROUPING).get("window_size"))
    return None if size is None else int(size)


def reader_of(called: Callable[..., Any]) -> ir.FilesReader | None:
    """Return the reader of many files that autopipe made a function for one file from; ``None`` for others."""
    reader = _held_by(called, "autopipe.pipeline.files").get("reader")
    return reader if isinstance(reader, ir.FilesReader) else None


def _held_by(called: Callable[..., Any] | None, module: str) -> Mapping[str, Any]:
    """Return the closure variables of a function of a module, by name; empty for other functions."""
    plain = inspect.unwrap(called) if called is not None else None
    if not inspect.isfunction(plain) or plain.__module__ != module:
        return {}
    return inspect.getclosurevars(plain).nonlocals


def public_name(called: Callable[..., Any]) -> str | None:
    """Return the public name of a function or class of TensorFlow; ``None`` for others.

    >>> import tensorflow as tf
    >>> public_name(tf.data.TFRecordDataset)
    'tf.data.TFRecordDataset'
    """
    for place in _PUBLIC:
        module = getattr(tf, place) if place else tf
        for name, value in vars(module).items():
            if value is called and not name.startswith("_"):
                return ".".join(part for part in ("tf", place, name) if part)
    return None


def import_path(called: Callable[..., Any]) -> tuple[str, str] | None:
    """Return the module and the name in it by which a function can be imported; ``None`` if it cannot."""
    path = getattr(called, "__qualname__", None) or getattr(called, "__name__", "")
    module = sys.modules.get(getattr(called, "__module__", None) or "")
    if module is None or not path:
        return None
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is not called:
        return None
    name = _importable(module)
    return (name, path) if all(part.isidentifier() for part in name.split(".")) else None


def _importable(module: ModuleType) -> str:
    """Return the name of a module; a script that was loaded by its path, or run, is known by its file."""
    private = module.__name__ == "__main__" or module.__name__.startswith("_autopipe_target")
    return Path(module.__file__).stem if private and module.__file__ else module.__name__


def apart(node: ir.Node) -> ir.Node:
    """Return a map that autopipe merged from two as two maps again, which give the same."""
    if not isinstance(node, ir.Map):
        return node
    made: ir.Node = node.input
    for fn in _in_turn(node.fn):
        made = replace(node, fn=fn, input=made)
    return made


def _in_turn(fn: Function) -> Iterator[Function]:
    match fn.keeps_alive:
        case (Function() as first, Function() as then) if fn.name == f"{first.name} then {then.name}":
            yield from _in_turn(first)
            yield from _in_turn(then)
        case _:
            yield fn


def looks_up(fn: Function, arrays: tuple[Any, ...]) -> bool:
    """Return whether a function gives the rows of arrays at the positions it takes, and nothing else."""
    outputs = fn.concrete.outputs
    return len(outputs) == len(arrays) and all(
        _rows(fn, output, array) for output, array in zip(outputs, arrays, strict=True)
    )


def _rows(fn: Function, output: Any, array: Any) -> bool:
    """Return whether an output is the rows of an array at the positions that the function takes."""
    op = origin(output).op
    if op.type != "GatherV2" or op.get_attr("batch_dims") or constant(op.inputs[2]) != 0:
        return False
    if origin(op.inputs[1]) is not fn.element_inputs[0]:
        return False
    live = next((live for live, inside in fn.concrete.graph.captures if inside is op.inputs[0]), None)
    held = constant(op.inputs[0])
    return live is array or (held is not None and np.array_equal(held, array.numpy()))
