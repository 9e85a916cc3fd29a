"""What is timed, and which questions have the same answer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.fingerprint import function_fingerprint
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.planning.measuring.samples import with_calls

__all__ = ["Question", "asked"]


@dataclass(frozen=True)
class Question:
    """How long two pipelines take for elements of some type, whatever their source.

    Attributes:
        before, after: the pipelines.
        elements: the type of the elements they are given; empty if they have their own sources.
    """

    before: ir.Node
    after: ir.Node
    elements: str

    def with_calls(self, calls: int | None) -> Question:
        """Return the same question with this many calls at once."""
        return Question(with_calls(self.before, calls), with_calls(self.after, calls), self.elements)

    @cached_property
    def alike(self) -> Hashable:
        """A key that is equal for questions with the same answer: stages with equal arguments that compute the same.

        Branches that are written alike have the same key, though each traces its own function.
        """
        return _alike(self.before), _alike(self.after), self.elements


def asked(before: ir.Node, after: ir.Node, over: ir.Node | None) -> Question:
    """Return the question, whatever the elements come from: a rule that changes that need not ask again.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> one, same, other = (extract(tf.data.Dataset.range(9).map(lambda x, k=k: x * k)) for k in (2, 2, 3))
    >>> questions = [asked(mapped, mapped, mapped.input).alike for mapped in (one, same, other)]
    >>> questions[0] == questions[1], questions[0] == questions[2]
    (True, False)
    """
    if over is None:
        return Question(before, after, "")
    stub = ir.Tensors(dataset=None, components=())
    old, new = (trees.substitute(side, over, stub) for side in (before, after))
    return Question(old, new, repr(signature(over).element_spec))


def _alike(tree: ir.Node) -> Hashable:
    arguments = (
        tuple((each.name, _argument(getattr(tree, each.name))) for each in fields(tree) if each.compare)
        if not isinstance(tree, ir.Source)
        else id(tree.dataset)
    )
    return type(tree).__name__, arguments, tuple(map(_alike, tree.inputs))


def _argument(value: Any) -> Hashable:
    if isinstance(value, Function):
        return _work_of(value)
    nodes = value if isinstance(value, tuple) else (value,)
    return "" if any(isinstance(each, ir.Node) for each in nodes) else repr(value)


@remembered
def _work_of(fn: Function) -> Hashable:
    """Return a key that is equal for functions that do the same work; Python code is equal only to itself."""
    if effects(fn).runs_python:
        return id(fn.concrete)
    return function_fingerprint(fn), tuple((str(each.dtype), str(each.shape)) for each in fn.concrete.captured_inputs)
