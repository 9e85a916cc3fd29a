"""The stages of a pipeline as lines to compare with those of another."""

from __future__ import annotations

from autopipe.pipeline import ir
from autopipe.pipeline.text import in_order, stage
from autopipe.planning.plans.fingerprint import stage_fingerprint
from autopipe.report.differences import Stage

__all__ = ["stages_of"]


def stages_of(tree: ir.Node) -> tuple[Stage, ...]:
    """Return the stages of a pipeline, sources first, and the headings of branches."""
    return tuple(_stage("  " * depth, each) for depth, each in in_order(tree))


def _stage(indent: str, shown: ir.Node | str) -> Stage:
    if isinstance(shown, str):
        return Stage(indent + shown, "")
    return Stage(indent + stage(shown), stage_fingerprint(shown), shown.line)
