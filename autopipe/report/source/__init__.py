"""A rewritten pipeline as plain ``tf.data`` code, which does not depend on autopipe."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.shared_caches import with_what_is_shared
from autopipe.report.references import apart
from autopipe.report.source._stages import expression, threads
from autopipe.report.source._writer import Writer

__all__ = ["Source", "source_of"]


@dataclass(frozen=True)
class Source:
    """The code of a pipeline.

    Attributes:
        code: a module with one function, which makes the dataset. What the code cannot hold is an argument of it.
        unwritten: what autopipe made that is no plain code, with the user's line and what it does; those are
            arguments too.
    """

    code: str
    unwritten: tuple[str, ...]


def source_of(rewriting: Rewriting, tree: ir.Node, title: str) -> Source:
    """Return the code that makes a pipeline.

    Args:
        rewriting: how it came to be.
        tree: the pipeline as it runs: ``rewriting.after`` with its knobs.
        title: what it is called.

    >>> import tensorflow as tf, autopipe
    >>> dataset = autopipe.optimize(tf.data.Dataset.range(9).batch(2), seconds=0)
    >>> for line in source_of(dataset.explain().rewriting, dataset.tree, "nine numbers").code.splitlines()[-5:]:
    ...     print(line)
    def make_dataset():
        dataset = tf.data.Dataset.range(0, 9)
        dataset = dataset.batch(2)
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        return dataset
    """
    tree = trees.transform(with_what_is_shared(tree), apart)
    writer = Writer(rewriting)
    return Source(writer.module(title, _Lines(writer, tree).write(tree, "dataset")), tuple(writer.unwritten))


class _Lines:
    """Writes the stages of a pipeline, each once."""

    def __init__(self, writer: Writer, tree: ir.Node) -> None:
        self._writer = writer
        self._uses = Counter(id(child) for node in trees.inputs_first(tree) for child in node.inputs)
        self._written: dict[int, str] = {}

    def write(self, node: ir.Node, into: str) -> str:
        """Write what makes a node, what it reads from before it, and return the variable that holds it."""
        if id(node) not in self._written:
            targets = [into] if len(node.inputs) == 1 else [self._writer.name("part") for _ in node.inputs]
            inputs = [self.write(child, target) for child, target in zip(node.inputs, targets, strict=True)]
            self._written[id(node)] = self._assign(node, inputs, into)
        return self._written[id(node)]

    def _assign(self, node: ir.Node, inputs: list[str], into: str) -> str:
        if isinstance(node, ir.ThreadPool) and not list(threads(node)):
            return inputs[0]
        made_by = expression(self._writer, node, inputs)
        target = self._writer.name("shared") if self._uses[id(node)] > 1 else into
        self._writer.lines.append(f"{target} = {made_by}{f'  # {node.line}' if node.line else ''}")
        return target
