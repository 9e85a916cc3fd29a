"""Whether it can be observed that a pipeline runs earlier than asked, or once more, as for a sample."""

from __future__ import annotations

from collections.abc import Callable

from autopipe.functions.analysis.effects import Effects, effects
from autopipe.pipeline import ir, trees

__all__ = ["who_has_side_effects", "who_would_see"]


def who_would_see(pipeline: ir.Node, *, draws_count: bool = True) -> str | None:
    """Return what could reveal that elements are made early or once more; ``None`` if nothing could.

    Random draws and file reads do not. Python code, variables, tables and unknown state might.

    Args:
        pipeline: the last node of what would run.
        draws_count: whether a draw from a generator, which others may share, counts.
    """
    return _who(pipeline, lambda found: not found.unseen or bool(found.generator and draws_count))


def who_has_side_effects(pipeline: ir.Node) -> str | None:
    """Return what may change something by running once more, as for a comparison; ``None`` if nothing does.

    Reading a variable or a table changes nothing; Python code and unknown state might.
    """
    return _who(pipeline, lambda found: found.has_side_effects)


def _who(pipeline: ir.Node, does: Callable[[Effects], bool]) -> str | None:
    """Return the first function that does it, or stage that might do it."""
    for node in trees.walk_through(pipeline):
        if isinstance(node, ir.Opaque):
            return f"autopipe cannot see inside {node.label}, which might keep state"
        for fn in trees.called_by(node):
            found = effects(fn)
            if does(found):
                return f"{fn} {found.describe()}"
    return None
