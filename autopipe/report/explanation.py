"""What was done to a pipeline and why that is safe; what was refused and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from autopipe.optimizer import Refusal, Rewriting, Step
from autopipe.pipeline import ir
from autopipe.pipeline.text import stage, tree_lines
from autopipe.planning.plan import Plan

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """The account of a rewriting. ``print()`` shows it; :meth:`to_dict` gives it to machines."""

    rewriting: Rewriting
    plan: Plan

    def __str__(self) -> str:
        out = StringIO()
        Console(file=out, width=110, color_system=None).print(self)
        return out.getvalue().rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values."""
        return {
            "before": tree_lines(self.rewriting.before),
            "after": tree_lines(self.rewriting.after),
            "steps": [
                {
                    "rule": step.rule,
                    "before": step.before,
                    "after": step.after,
                    "keeps": str(step.keeps),
                    "because": [proof.because for proof in step.proofs],
                }
                for step in self.rewriting.steps
            ],
            "refusals": [
                {"rule": refusal.rule, "where": refusal.where, "reason": refusal.reason}
                for refusal in self.rewriting.refusals
            ],
            "unread": [{"stage": stage(node), "reason": node.reason} for node in self._opaque()],
            "knobs": dict(self.plan.knobs),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _pipeline("Pipeline as written", self.rewriting.before)
        if self.rewriting.steps:
            yield from _pipeline("Pipeline as run", self.rewriting.after)
        yield _heading(f"Changed, keeping {self.plan.keeps}")
        if not self.rewriting.steps:
            yield Padding("nothing: no rule applies, so it runs as it was written", (0, 0, 0, 2))
        for number, step in enumerate(self.rewriting.steps, 1):
            yield from _step(number, step)
        if self.rewriting.refusals:
            yield _heading("Refused")
            for refusal in self.rewriting.refusals:
                yield from _refusal(refusal)
        for node in self._opaque():
            yield _heading("Not read")
            yield Padding(f"{stage(node)}, and all before it: {node.reason}", (0, 0, 0, 2))
        if self.plan.knobs:
            yield _heading("Knobs")
            for name, value in self.plan.knobs.items():
                yield Padding(Text(f"{name} = {_value(name, value)}"), (0, 0, 0, 2))

    def _opaque(self) -> Iterator[ir.Opaque]:
        return (node for node in ir.walk(self.rewriting.before) if isinstance(node, ir.Opaque))


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _pipeline(title: str, tree: ir.Node) -> Iterator[Any]:
    yield _heading(title)
    shown = Tree(_stage_text(tree), guide_style="dim")
    _add_inputs(shown, tree)
    yield Padding(shown, (0, 0, 1, 2))


def _add_inputs(shown: Tree, node: ir.Node) -> None:
    # A chain is one column, the consumer's end on top; only branches indent.
    while len(node.inputs) == 1:
        (node,) = node.inputs
        shown.add(_stage_text(node))
    for child in node.inputs:
        _add_inputs(shown.add(_stage_text(child)), child)


def _stage_text(node: ir.Node) -> Text:
    location = getattr(getattr(node, "fn", None) or getattr(node, "predicate", None), "location", None)
    text = Text(stage(node))
    return text.append(f"  {location}", style="dim") if location else text


def _step(number: int, step: Step) -> Iterator[Any]:
    yield Padding(Text.assemble((f"{number}. {step.rule}", "green"), f"  keeps {step.keeps}"), (0, 0, 0, 2))
    yield Padding(Text(f"{step.before}\n-> {step.after}"), (0, 0, 0, 5))
    for proof in step.proofs:
        yield Padding(Text(f"because {proof.because}", style="dim"), (0, 0, 0, 5))


def _refusal(refusal: Refusal) -> Iterator[Any]:
    yield Padding(Text(f"{refusal.rule}  at {refusal.where}", style="yellow"), (0, 0, 0, 2))
    yield Padding(Text(refusal.reason, style="dim"), (0, 0, 0, 5))


def _value(name: str, value: int) -> str:
    if value == ir.AUTOTUNE:
        return "AUTOTUNE"
    return "TensorFlow's own" if name.endswith(".size") and not value else str(value)
