"""What was done to a pipeline and why that is safe; what was refused and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autopipe.figures import bytes_text
from autopipe.optimizer import Refusal, Rewriting, Step
from autopipe.pipeline import ir, trees
from autopipe.pipeline.knobs import knob_values, read_knobs, with_knobs
from autopipe.pipeline.shared_caches import with_what_is_shared
from autopipe.pipeline.text import in_order, stage, tree_lines
from autopipe.planning.costs.diagnosis import Diagnosis
from autopipe.planning.memory.freed import FreedMemory
from autopipe.planning.plans.plan import Carried, Plan
from autopipe.printing import WIDTH, as_text, heading
from autopipe.report.findings import Finding, findings

__all__ = ["Explanation", "trials_text"]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The account of a rewriting. ``print()`` and a notebook show it; :meth:`to_dict` gives it to machines.

    Attributes:
        rewriting: what was done, and what was refused.
        plan: the rules applied and the knobs.
        diagnosis: what limits the pipeline as written, if it was measured.
        freed: what happens to the memory of a batch, if the C library decides that.
        witness: why it was not measured by default: what could have revealed the run.
    """

    rewriting: Rewriting
    plan: Plan
    diagnosis: Diagnosis | None = None
    freed: FreedMemory | None = None
    witness: str | None = None

    def __repr__(self) -> str:
        return as_text(self, width=WIDTH)

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values."""
        return {
            **_diagnosed(self.diagnosis),
            **({"not_timed": self.witness} if self.witness else {}),
            "before": tree_lines(self.as_written),
            "after": tree_lines(self.as_run),
            "steps": [
                {
                    "rule": step.rule,
                    "before": step.before,
                    "after": step.after,
                    "keeps": str(step.keeps),
                    "because": list(step.reasons),
                }
                for step in self.rewriting.steps
            ],
            "refusals": [
                {"rule": refusal.rule, "where": refusal.where, "reason": refusal.reason}
                for refusal in self.rewriting.refusals
            ],
            "whole": self.rewriting.whole,
            "verified": self.rewriting.verified,
            "findings": [finding.to_dict() for finding in self.findings],
            "unread": [{"stage": stage(node), "reason": node.reason} for node in self._opaque()],
            "knobs": dict(self.plan.knobs),
            **({"freed_memory": asdict(self.freed)} if self.freed else {}),
            **({"plan": _carried_dict(self.plan.carried)} if self.plan.carried else {}),
        }

    @property
    def unset(self) -> dict[str, int]:
        """The knobs without a plan or a search."""
        return knob_values(self.rewriting.tunable)

    @cached_property
    def as_run(self) -> ir.Node:
        """The rewritten pipeline with its knobs as they are; the threads it runs on are not part of it."""
        own = {knob.name for knob in read_knobs(self.rewriting.after)}
        run = with_knobs(self.rewriting.after, {name: n for name, n in self.plan.knobs.items() if name in own})
        return with_what_is_shared(run)

    @cached_property
    def as_written(self) -> ir.Node:
        """The pipeline before anything was done to it."""
        return with_what_is_shared(self.rewriting.before)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out in the pipeline as written."""
        return findings(self.as_written, self.diagnosis, self.rewriting.refusals)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _costs(self.diagnosis)
        yield _pipelines(self.as_written, self.as_run)
        yield from _from_plan(self.plan.carried)
        yield heading(f"Changed, keeping {self.plan.keeps}")
        if not self.rewriting.steps:
            yield Padding(Text(self._why_nothing()), (0, 0, 0, 2))
        yield from _steps(self.rewriting.steps)
        if self.rewriting.whole:
            yield heading("As a whole")
            yield Padding(Text(self.rewriting.whole), (0, 0, 0, 2))
        if self.rewriting.refusals:
            yield heading("Refused")
            yield from _refused(self.rewriting.refusals)
        if self.rewriting.verified:
            yield heading("Verified")
            yield Padding(Text(self.rewriting.verified), (0, 0, 0, 2))
        if self.findings:
            yield heading("Findings")
            for finding, times in Counter(self.findings).items():
                yield from _finding(finding, times)
        if self.witness:
            yield heading("Not timed")
            remedy = "with seconds=2 (on the command line, --seconds 2) it is run all the same"
            why = f"what its stages cost: a run could be noticed, since {self.witness}; {remedy}"
            yield Padding(Text(why), (0, 0, 0, 2))
        left = Counter((isinstance(node, ir.SharedCache), stage(node), node.reason) for node in self._opaque())
        for (is_cache, name, reason), times in left.items():
            yield heading("Left as it is" if is_cache else "Not read")
            yield Padding(Text(f"{name}{_places(times)}, and all before it: {reason}"), (0, 0, 0, 2))
        if self.plan.knobs:
            yield heading("Knobs")
            for name, value in self.plan.knobs.items():
                yield Padding(Text(f"{name} = {_value(name, value)}"), (0, 0, 0, 2))

        if self.freed is not None:
            yield heading(f"Memory of a batch: {'kept' if self.freed.kept else 'not kept'} for the next one")
            yield Padding(Text(f"because {self.freed.because}", style="dim"), (0, 0, 0, 2))

    def _why_nothing(self) -> str:
        """Return why no rule changed the pipeline, and what becomes of it."""
        numbers = any(value != self.unset.get(name) for name, value in self.plan.knobs.items())
        why = "what rules would do is refused below" if self.rewriting.refusals else "no rule was applied"
        run = "with other numbers, under Knobs" if numbers else "as it was written"
        return f"nothing: {why}, so it runs {run}"

    def _opaque(self) -> Iterator[ir.Opaque]:
        return (node for node in trees.walk(self.rewriting.before) if isinstance(node, ir.Opaque))


def _diagnosed(diagnosis: Diagnosis | None) -> dict[str, Any]:
    return {} if diagnosis is None else diagnosis.to_dict()


def _costs(diagnosis: Diagnosis | None) -> Iterator[Any]:
    if diagnosis is not None:
        yield Text(diagnosis.verdict, style="bold")
        yield Padding(diagnosis.profile, (0, 0, 1, 0))
        yield from _cache_sizes(diagnosis)


def _cache_sizes(diagnosis: Diagnosis) -> Iterator[Any]:
    if diagnosis.cache_sizes:
        yield heading("A cache would take")
        for each in diagnosis.cache_sizes:
            error = f" (within {bytes_text(each.error)})" if each.error else ""
            line = f"  {each.line}" if each.line else ""
            shown = Text.assemble(f"{bytes_text(each.bytes)}{error} after {each.stage}", (line, "dim"))
            yield Padding(shown, (0, 0, 0, 2))


def _pipelines(written: ir.Node, run: ir.Node) -> RenderableType:
    """Show the pipeline, source first; where it changed, both sides with what moved or is new in colour."""
    if written == run:
        return Group(heading("Pipeline"), Padding(_lines(written, None, ""), (0, 0, 1, 2)))
    before = Counter(stage(node) for node in trees.walk(written))
    after = Counter(stage(node) for node in trees.walk(run))
    sides = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 3, 0, 0))
    sides.add_column("Pipeline as written", overflow="fold")
    sides.add_column("Pipeline as run", overflow="fold")
    sides.add_row(_lines(written, before - after, "red"), _lines(run, after - before, "green"))
    return sides


def _lines(node: ir.Node, changed: Counter[str] | None, style: str) -> Text:
    lines = []
    for depth, each in in_order(node):
        shown = each if isinstance(each, str) else stage(each)
        line = Text("  " * depth).append(shown, style=style if changed and changed[shown] else "")
        location = None if isinstance(each, str) else each.line
        lines.append(line.append(f"  {location}", style="dim") if location else line)
    return Text("\n").join(lines)


def _from_plan(carried: Carried | None) -> Iterator[Any]:
    if carried is not None:
        yield heading("From the plan")
        for line in _carried_lines(carried):
            yield Padding(Text(line), (0, 0, 0, 2))


def _steps(steps: Iterable[Step]) -> Iterator[Any]:
    """Show each step; of equal ones in a row, as in branches that are alike, the first stands for all."""
    number = 1
    for step, equal in groupby(steps):
        last = number + len(list(equal)) - 1
        yield from _step(str(number) if last == number else f"{number}-{last}", step)
        number = last + 1


def _step(number: str, step: Step) -> Iterator[Any]:
    yield Padding(Text.assemble((f"{number}. {step.rule}", "green"), f"  keeps {step.keeps}"), (0, 0, 0, 2))
    yield Padding(Text(f"{step.before}\n-> {step.after}"), (0, 0, 0, 5))
    for reason in step.reasons:
        yield Padding(Text(f"because {reason}", style="dim"), (0, 0, 0, 5))


def _refused(refusals: Iterable[Refusal]) -> Iterator[Any]:
    """Show what was refused; a reason that several rules share, such as no time to measure, is shown once."""
    rules: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        rules.setdefault((refusal.where, refusal.reason), []).append(refusal.rule)
    for (where, reason), names in rules.items():
        yield Padding(Text(f"{', '.join(names)}  at {where}", style="yellow"), (0, 0, 0, 2))
        yield Padding(Text(reason, style="dim"), (0, 0, 0, 5))


def _finding(finding: Finding, times: int) -> Iterator[Any]:
    line = f"  {finding.line}" if finding.line else ""
    yield Padding(Text(f"{finding.code}  at {finding.where}{line}{_places(times)}", style="cyan"), (0, 0, 0, 2))
    gain = f": {finding.gain}" if finding.gain else ""
    yield Padding(Text(f"{finding.why}; {finding.remedy}{gain}", style="dim"), (0, 0, 0, 5))


def _places(times: int) -> str:
    return "" if times == 1 else f" at {times} places"


def _value(name: str, value: int) -> str:
    if value == ir.AUTOTUNE:
        return "AUTOTUNE"
    return "TensorFlow's own" if name.startswith("thread_pool") and not value else str(value)


def _carried_dict(carried: Carried) -> dict[str, Any]:
    return {
        "rules": list(carried.rules),
        "refused": list(carried.refused),
        "scaled": {name: list(values) for name, values in carried.scaled.items()},
        "left_out": list(carried.left_out),
        "measured": dict(carried.given.measured),
        "measured_elsewhere": carried.elsewhere,
        "measured_on": dict(carried.measured_on),
        "versions": {name: list(values) for name, values in carried.versions.items()},
        "account": list(_carried_lines(carried)),
    }


def _carried_lines(carried: Carried) -> Iterator[str]:
    """Yield what part of a plan holds on any machine, what was measured on its own machine, and what was scaled."""
    refused = f"; refused here: {', '.join(carried.refused)}" if carried.refused else ""
    yield f"structure, which holds on any machine: {', '.join(carried.rules) or 'no rule'}{refused}"
    yield f"numbers: {_origin_of_numbers(carried)}"
    if carried.scaled:
        numbers = ", ".join(f"{name} {_value(name, a)} -> {_value(name, b)}" for name, (a, b) in carried.scaled.items())
        there, here = (_cores(machine) for machine in (carried.given.machine, carried.machine))
        yield f"scaled from {there} to {here}: {numbers}; buffers stay"
    if carried.left_out:
        yield f"left out, since their stages are not here: {', '.join(carried.left_out)}"
    if carried.versions:
        changed = ", ".join(f"{name} {a} there and {b} here" for name, (a, b) in carried.versions.items())
        yield f"versions: {changed}"


def _origin_of_numbers(carried: Carried) -> str:
    found = _found(carried.given.measured)
    there = carried.measured_on
    if not carried.elsewhere:
        return f"{found}, on this machine" if there else f"{found}, on a machine it does not tell"
    host = f"{there['host']} with " if there.get("host") else ""
    return f"{found}, elsewhere: on {host}{_cores(there)}; here are {_cores(carried.machine)}"


def _found(measured: Mapping[str, Any]) -> str:
    """Return the main figures of a plan, or that a search ended without any."""
    figures = [*_figures(measured)]
    if figures:
        return f"measured {', '.join(figures)}"
    trials = measured.get("trials")
    if isinstance(trials, int):
        return f"{trials_text(trials)} found nothing faster"
    return "nothing was measured with them"


def trials_text(count: int) -> str:
    """Return a number of trials in words.

    >>> trials_text(1), trials_text(2)
    ('1 trial', '2 trials')
    """
    return f"{count} trial{'' if count == 1 else 's'}"


def _figures(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield the main figures of a plan in words."""
    if {"objective", "before", "after"} <= set(measured):
        spread = _spread(measured, "lowest", "highest")
        before, after = _figure(measured["before"]), _figure(measured["after"])
        yield f"{measured['objective']} {before} -> {after}{spread}"
    ratio = measured.get("ratio")
    if isinstance(ratio, Mapping) and "median" in ratio:
        yield f"{_figure(ratio['median'])}x as fast as written{_spread(ratio, 'low', 'high')}"


def _spread(figures: Mapping[str, Any], low: str, high: str) -> str:
    return f" ({_figure(figures[low])} to {_figure(figures[high])})" if {low, high} <= set(figures) else ""


def _figure(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cores(machine: Mapping[str, Any]) -> str:
    cores = machine.get("cores")
    return "cores it does not tell" if cores is None else f"{cores:g} core{'' if cores == 1 else 's'}"
