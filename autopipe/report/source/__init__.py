"""A rewritten pipeline as plain ``tf.data`` code, so that nobody depends on autopipe."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
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
    tree = trees.transform(tree, apart)
    writer = Writer(rewriting)
    return Source(writer.module(title, _write(writer, tree)), tuple(writer.unwritten))


def _write(writer: Writer, tree: ir.Node) -> str:
    """Write what makes a pipeline, sources first, and return the variable that holds it."""
    each_once = {id(node): node for node in trees.walk(tree)}.values()
    uses = Counter(id(child) for node in each_once for child in node.inputs)
    made: dict[int, str] = {}

    def written(node: ir.Node, into: str) -> str:
        """Write a node; one that is used twice is made once."""
        if id(node) not in made:
            targets = [into] if len(node.inputs) == 1 else [writer.name("part") for _ in node.inputs]
            inputs = [written(child, target) for child, target in zip(node.inputs, targets, strict=True)]
            made[id(node)] = assigned(node, inputs, into)
        return made[id(node)]

    def assigned(node: ir.Node, inputs: list[str], into: str) -> str:
        if isinstance(node, ir.ThreadPool) and not list(threads(node)):
            return inputs[0]
        made_by = expression(writer, node, inputs)
        target = writer.name("shared") if uses[id(node)] > 1 else into
        writer.lines.append(f"{target} = {made_by}{f'  # {node.line}' if node.line else ''}")
        return target

    return written(tree, "dataset")
