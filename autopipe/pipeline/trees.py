"""Operations on a whole tree: walking it, and making another one of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, TypeGuard, TypeVar

from autopipe.functions.function import Function
from autopipe.pipeline import ir

__all__ = [
    "called_by",
    "fixes_order",
    "fold",
    "frees_order",
    "functions",
    "inputs_first",
    "is_memory_cache",
    "keeping",
    "last_stage",
    "on",
    "options_of",
    "past",
    "substitute",
    "transform",
    "walk",
    "walk_through",
    "works_ahead",
]

_Made = TypeVar("_Made")


def walk(node: ir.Node) -> Iterator[ir.Node]:
    """Yield ``node`` and everything it reads from, itself first."""
    yield node
    for child in node.inputs:
        yield from walk(child)


def walk_through(node: ir.Node) -> Iterator[ir.Node]:
    """Yield what :func:`walk` does, but with the stages inside an opaque stage in place of it, if they are known."""
    for each in walk(node):
        if isinstance(each, ir.Opaque) and each.inside is not None:
            yield from walk_through(each.inside)
        else:
            yield each


def inputs_first(tree: ir.Node) -> Iterator[ir.Node]:
    """Yield every node after those it reads from; a node that is used twice comes once."""
    yield from _unseen(tree, set())


def _unseen(node: ir.Node, seen: set[int]) -> Iterator[ir.Node]:
    if id(node) in seen:
        return
    seen.add(id(node))
    for child in node.inputs:
        yield from _unseen(child, seen)
    yield node


def fold(tree: ir.Node, make: Callable[[ir.Node, list[_Made]], _Made]) -> _Made:
    """Return what ``make`` makes of the last node, each time from what it made of the inputs, sources first.

    A node that is used twice is handled once. A recursive closure would do the same, but in a reference cycle that
    keeps what it holds, such as samples, until the garbage collector runs.
    """
    made: dict[int, _Made] = {}
    for node in inputs_first(tree):
        made[id(node)] = make(node, [made[id(child)] for child in node.inputs])
    return made[id(tree)]


def substitute(node: ir.Node, old: ir.Node, new: ir.Node) -> ir.Node:
    """Return the tree with every ``old`` replaced by ``new``; a node that is used twice stays one.

    Unchanged parts stay the same objects: ``new`` may read from them too.
    """
    return fold(node, lambda each, inputs: new if each == old else on(each, *inputs))


def functions(tree: ir.Node) -> Iterator[Function]:
    """Yield every function that a pipeline calls, those inside opaque nodes too."""
    for node in walk(tree):
        yield from called_by(node)


def called_by(node: ir.Node) -> tuple[Function, ...]:
    """Return the functions that one stage calls; those inside an opaque node too."""
    match node:
        case ir.Map(fn=fn) | ir.MemoizedMap(fn=fn) | ir.FlatMap(fn=fn) | ir.Interleave(fn=fn) | ir.Generator(fn=fn):
            return (fn,)
        case ir.LegacyInterleave(fn=fn) | ir.Scan(fn=fn) | ir.Filter(predicate=fn) | ir.TakeWhile(predicate=fn):
            return (fn,)
        case ir.Saved(fn=fn):
            return (fn,)
        case ir.GroupByWindow():
            return (node.key_func, node.reduce_func, node.window_size_func)
        case ir.Opaque(functions=hidden):
            return hidden
    return ()


def keeping(tree: ir.Node) -> Iterator[ir.Keeping]:
    """Yield every stage that keeps elements, or results, for later epochs; in memory or on disk."""
    return (node for node in walk(tree) if isinstance(node, ir.Keeping))


def is_memory_cache(node: ir.Node) -> TypeGuard[ir.Cache]:
    """Return whether a stage is a cache of elements in memory."""
    return isinstance(node, ir.Cache) and node.in_memory


def past(node: ir.Node, kinds: type[ir.Node] | UnionType | tuple[type[ir.Node], ...]) -> ir.Node:
    """Return the source of elements, skipping stages of some kinds.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> type(past(extract(tf.data.Dataset.range(9).batch(2).repeat().prefetch(1)), ir.Prefetch | ir.Repeat)).__name__
    'Batch'
    """
    while isinstance(node, kinds):
        (node,) = node.inputs
    return node


def last_stage(tree: ir.Node) -> ir.Node:
    """Return the last node that handles elements, below those that only set options."""
    return past(tree, ir.Options | ir.ThreadPool)


def options_of(tree: ir.Node) -> Iterator[Any]:
    """Yield all ``tf.data.Options`` that the author set; those upstream of an opaque node are merged."""
    for node in walk(tree):
        if isinstance(node, ir.Options):
            yield node.options
        elif isinstance(node, ir.Opaque):
            yield node.dataset.options()


def works_ahead(node: ir.Node) -> bool:
    """Return whether a stage makes elements while those after it work on others."""
    return isinstance(node, ir.Prefetch) or node.is_parallel


def frees_order(tree: ir.Node) -> bool:
    """Return whether an option lets parallel stages give their elements in any order.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> options = tf.data.Options()
    >>> options.deterministic = False
    >>> free = extract(tf.data.Dataset.range(3).with_options(options))
    >>> frees_order(free), fixes_order(free)
    (True, False)
    """
    return any(options.deterministic is False for options in options_of(tree))


def fixes_order(tree: ir.Node) -> bool:
    """Return whether an option asks for the elements of all stages in order."""
    return any(options.deterministic is True for options in options_of(tree))


def transform(tree: ir.Node, change: Callable[[ir.Node], ir.Node]) -> ir.Node:
    """Return the tree with ``change`` applied to every node, sources first; a node that is used twice stays one."""
    return fold(tree, lambda each, inputs: change(on(each, *inputs)))


def on(node: ir.Node, *inputs: ir.Node) -> ir.Node:
    """Return the node reading from other inputs; the same object if it reads from these already."""
    return node if all(map(operator.is_, inputs, node.inputs)) else node.on(*inputs)
