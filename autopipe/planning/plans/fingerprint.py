"""The identity of a pipeline, wherever its data is, and whatever numbers a plan sets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from autopipe.functions.analysis.fingerprint import function_fingerprint
from autopipe.functions.function import Function
from autopipe.functions.subgraph import with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.literal import literal
from autopipe.pipeline.signature import signature

__all__ = ["fingerprint", "stage_fingerprint"]

# Where data is and which objects hold it differ between machines; the pipeline is the same.
_NOT_IDENTITY = frozenset(
    "classes components dataset filename in_order line options origin path reason seed_generator table".split()
)
_SEEDS = ("seed", "seed2")
_PATH = re.compile(rb"/.|~/|\w+://")


def fingerprint(tree: ir.Node) -> str:
    """Return the identity of a pipeline: its stages, their arguments and functions; not its data or file names."""
    digest = hashlib.sha256()
    for node in trees.walk(tree):
        digest.update(stage_fingerprint(node).encode())
    return digest.hexdigest()[:16]


def stage_fingerprint(node: ir.Node) -> str:
    """Return the identity of a transformation, whatever it reads from."""
    digest = hashlib.sha256(type(node).__name__.encode())
    for name, value in _identity(node).items():
        functions = value if isinstance(value, tuple) else (value,)
        if functions and all(isinstance(each, Function) for each in functions):
            text = ",".join(_function_identity(each) for each in functions)
        else:
            text = literal(value)
        digest.update(f"{name}={text};".encode())
    if isinstance(node, ir.Source):
        digest.update(repr(node.dataset.element_spec).encode())
    return digest.hexdigest()


def _identity(node: ir.Node) -> dict[str, Any]:
    """Return the arguments that identify a stage: not those that a plan sets, or that each run draws or counts."""
    named = {each.name: getattr(node, each.name) for each in fields(node) if each.name not in _NOT_IDENTITY}
    values = {name: value for name, value in named.items() if not _is_input(value)}
    for knob in ("num_parallel_calls", "num_parallel_reads"):
        if knob in values:
            values[knob] = values[knob] is not None
    match node:
        case ir.Prefetch():
            del values["buffer_size"]
        case ir.Shuffle():
            # Keras draws a seed if none is given, and the buffer is often as large as the number of files.
            values["seeds"] = node.seeded
            if 0 <= signature(node.input).cardinality <= node.capacity:
                values["buffer_size"] = "all"
    return values


def _is_input(value: Any) -> bool:
    return any(isinstance(each, ir.Node) for each in (value if isinstance(value, tuple) else (value,)))


def _function_identity(fn: Function) -> str:
    return function_fingerprint(replace(fn, concrete=_WithoutPathsAndSeeds(fn.concrete)))


class _WithoutPathsAndSeeds:
    """A traced function as ``function_fingerprint`` reads it, without what differs between checkouts or runs.

    Paths are left out. Of seeds, which TensorFlow derives from that of the process, only their presence counts.
    """

    def __init__(self, concrete: Any) -> None:
        self._concrete = concrete

    @property
    def graph(self) -> _WithoutPathsAndSeeds:
        return self

    def as_graph_def(self) -> Any:
        definition = self._concrete.graph.as_graph_def()
        for node in with_called(definition):
            if node.op == "Const" and _are_paths(node.attr["value"].tensor.string_val):
                node.attr["value"].tensor.Clear()
            if any(node.attr[name].i for name in _SEEDS if name in node.attr):
                for name in _SEEDS:
                    node.attr[name].i = 1
        return definition


def _are_paths(texts: Sequence[bytes]) -> bool:
    """Return whether all texts are absolute paths or URLs; ``image/encoded`` may as well be the key of a feature."""
    return bool(texts) and all(map(_PATH.match, texts))
