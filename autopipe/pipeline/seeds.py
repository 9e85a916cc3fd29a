"""How far a pipeline has drawn from the seeds its author gave."""

from __future__ import annotations

from typing import TypeGuard

from autopipe.pipeline import ir, trees

__all__ = ["draws_with_its_first_element", "is_reseeded", "repeats_a_seeded_shuffle"]


def is_reseeded(node: ir.Node) -> TypeGuard[ir.Shuffle]:
    """Return whether a stage shuffles every epoch anew, in orders drawn from a seed."""
    return isinstance(node, ir.Shuffle) and node.seeded and node.reshuffle_each_iteration


def repeats_a_seeded_shuffle(pipeline: ir.Node) -> bool:
    """Return whether orders are drawn from a seed while the pipeline runs, for each repetition or concatenated part.

    With more read-ahead, an iterator that is abandoned midway has drawn one more, and the next one continues from
    there.
    """
    starting_anew = (node for node in trees.walk(pipeline) if isinstance(node, ir.Concatenate | ir.Repeat))
    return any(is_reseeded(node) for each in starting_anew for node in trees.walk(each))


def draws_with_its_first_element(pipeline: ir.Node) -> bool:
    """Return whether an iterator draws an order from a seed when it is first read, and not when it is made.

    A shuffle starts its input only then.
    """
    shuffles = (node for node in trees.walk(pipeline) if isinstance(node, ir.Shuffle))
    return any(is_reseeded(node) for shuffle in shuffles for node in trees.walk(shuffle.input))
