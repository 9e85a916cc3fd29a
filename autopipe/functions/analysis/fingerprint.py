"""A hash of what a function computes, the same in another process and after moving the checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from autopipe.functions.function import Function

__all__ = ["function_fingerprint"]

# Attributes that name things, or place them, but do not change what is computed.
_NAMES = frozenset({"container", "shared_name", "config", "config_proto", "executor_type", "token"})


def function_fingerprint(fn: Function) -> str:
    """Return a hexadecimal hash of the ops of a function, their arguments and how they are connected.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> trees = [extract(tf.data.Dataset.range(3).map(lambda x, k=k: x * k)) for k in (2, 2, 3)]
    >>> [function_fingerprint(tree.fn) == function_fingerprint(trees[0].fn) for tree in trees]
    [True, True, False]
    """
    graph = fn.concrete.graph.as_graph_def()
    library = {function.signature.name: function for function in graph.library.function}
    return _hash(graph.node, library).hex()


def _hash_called(function: Any, library: dict[str, Any]) -> bytes:
    """Return the hash of a function that another calls, including the order of its arguments and results."""
    arguments = {argument.name: f"argument {index}" for index, argument in enumerate(function.signature.input_arg)}
    results = (function.ret[result.name] for result in function.signature.output_arg)
    return _hash(function.node_def, library, arguments, tuple(results))


def _hash(
    nodes: Any, library: dict[str, Any], arguments: Mapping[str, str] | None = None, results: Sequence[str] = ()
) -> bytes:
    digest = hashlib.sha256()
    position = {node.name: str(index) for index, node in enumerate(nodes)} | dict(arguments or {})

    def feed_place(source: str) -> None:
        name, _, output = source.lstrip("^").partition(":")
        digest.update(f"{position.get(name, name)}:{output};".encode())

    for node in nodes:
        digest.update(node.op.encode())
        for name in sorted(node.attr):
            if not name.startswith("_") and name not in _NAMES:
                digest.update(name.encode() + _hash_attribute(node.attr[name], library))
        for source in node.input:
            feed_place(source)
    for result in results:
        feed_place(result)
    return digest.digest()


def _hash_attribute(value: Any, library: dict[str, Any]) -> bytes:
    functions = [value.func.name] if value.HasField("func") else [each.name for each in value.list.func]
    if functions:
        return b"".join(_hash_called(library[name], library) for name in functions if name in library)
    return bytes(value.SerializeToString(deterministic=True))
