"""What differs between two plans, two pipelines, or a plan and a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from autopipe.planning.plans.plan import Plan
from autopipe.printing import heading

__all__ = ["Changed", "Differences", "Side", "Stage", "differences"]

_STYLES = {"-": "red", "+": "green", " ": ""}
# The memory that is free at the moment says nothing about the machine.
_PASSING = frozenset({"available_bytes"})


@dataclass(frozen=True)
class Stage:
    """One line of a pipeline.

    Attributes:
        text: the stage, indented as the branch it is in.
        identity: identifies what it computes, also for functions of the same name.
        line: where the user wrote it.
    """

    text: str
    identity: str
    line: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Side:
    """One of the two that are compared.

    Attributes:
        name: what the user calls it.
        plan: its rules, knobs and figures.
        stages: those of its pipeline; ``None`` if it has none to show.
        stored: whether it is a plan, which also has a promise, figures and a machine.
    """

    name: str
    plan: Plan
    stages: tuple[Stage, ...] | None = None
    stored: bool = False


@dataclass(frozen=True)
class Changed:
    """A stage of either (`` ``), of the first only (``-``), or of the second only (``+``)."""

    sign: str
    stage: Stage


@dataclass(frozen=True)
class Differences:
    """What differs. ``print()`` shows it through rich; :meth:`to_dict` gives it to machines.

    Attributes:
        sides: the two names.
        stages: all stages with a sign each; empty where one side has none to show.
        rules: those of the first side only, and of the second only.
        order: whether both have the same rules in another order, or at other stages.
        values: what else differs, by heading and name: the value of the first side and of the second.
    """

    sides: tuple[str, str]
    stages: tuple[Changed, ...]
    rules: tuple[tuple[str, ...], tuple[str, ...]]
    order: bool
    values: Mapping[str, Mapping[str, tuple[Any, Any]]]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self._stages_differ or any(self.rules) or self.order or self.values)

    @property
    def _stages_differ(self) -> bool:
        return any(each.sign != " " for each in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return the differences as plain values."""
        return {
            "equal": self.equal,
            "a": self.sides[0],
            "b": self.sides[1],
            "stages": [{"sign": each.sign, "stage": each.stage.text, "line": each.stage.line} for each in self.stages],
            "rules": {"only_a": list(self.rules[0]), "only_b": list(self.rules[1]), "another_order": self.order},
            **{part: {name: list(pair) for name, pair in of.items()} for part, of in self.values.items()},
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"--- {self.sides[0]}", style="red")
        yield Text(f"+++ {self.sides[1]}", style="green")
        if self.equal:
            yield Text("no difference")
        if self._stages_differ:
            yield heading("Stages")
            yield from _indented(self._stage_lines())
        if any(self.rules) or self.order:
            yield heading("Rules")
            yield from _indented(self._rule_lines())
        for part, values in self.values.items():
            yield heading(part.capitalize())
            yield from _indented(
                Text(f"{name}: {_shown_beside(a, b)} -> {_shown_beside(b, a)}") for name, (a, b) in values.items()
            )

    def _stage_lines(self) -> Iterator[Text]:
        changed = {each.stage for each in self.stages if each.sign != " "}
        named_alike = Counter(stage.text for stage in changed)
        for each in self.stages:
            line = Text(f"{each.sign} {each.stage.text}", style=_STYLES[each.sign])
            if each.sign != " " and named_alike[each.stage.text] > 1:
                line.append(f"  #{each.stage.identity[:6]}")
            if each.stage.line:
                line.append(f"  {each.stage.line}", style="dim")
            yield line

    def _rule_lines(self) -> Iterator[Text]:
        if self.order:
            yield Text("the same ones, in another order or at other stages")
        for sign, names in zip("-+", self.rules, strict=True):
            for name in names:
                yield Text(f"{sign} {name}", style=_STYLES[sign])


def differences(first: Side, second: Side) -> Differences:
    """Compare two sides in all that both have.

    >>> two = [Side(name, Plan("ab12", knobs={"prefetch.buffer_size": size})) for name, size in (("a", 2), ("b", 4))]
    >>> differences(*two).values
    {'knobs': {'prefetch.buffer_size': (2, 4)}}
    """
    one, two = first.plan, second.plan
    names = ("fingerprint", "keeps", "knobs", "measured", "machine", "versions")
    shared = names if first.stored and second.stored else ("fingerprint", "knobs")
    compared = {name: _unlike(_flat(name, getattr(one, name)), _flat(name, getattr(two, name))) for name in shared}
    only_first = tuple((Counter(one.rules) - Counter(two.rules)).elements())
    only_second = tuple((Counter(two.rules) - Counter(one.rules)).elements())
    return Differences(
        sides=(first.name, second.name),
        stages=_compared(first.stages, second.stages),
        rules=(only_first, only_second),
        order=not only_first and not only_second and _applied(one, two) != _applied(two, one),
        values={name: found for name, found in compared.items() if found},
    )


def _applied(plan: Plan, beside: Plan) -> tuple[Any, ...]:
    """Return the rules of a plan in order, with their places if both plans have them."""
    return plan.rules, plan.places if beside.places else ()


def _compared(first: tuple[Stage, ...] | None, second: tuple[Stage, ...] | None) -> tuple[Changed, ...]:
    if first is None or second is None:
        return ()
    changes: list[Changed] = []
    for kind, begin, end, begin_2, end_2 in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            changes += [Changed(" ", each) for each in second[begin_2:end_2]]
        else:
            changes += [Changed("-", each) for each in first[begin:end]]
            changes += [Changed("+", each) for each in second[begin_2:end_2]]
    return tuple(changes)


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Return the values in a mapping under dotted names."""
    if not isinstance(value, Mapping):
        return {name: value}
    found: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, Mapping):
            found |= {f"{key}.{inner}": below for inner, below in _flat(key, each).items()}
        elif key not in _PASSING:
            found[key] = each
    return found


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _indented(lines: Iterator[Text]) -> Iterator[Padding]:
    return (Padding(line, (0, 0, 0, 2)) for line in lines)


def _shown_beside(value: Any, other: Any) -> str:
    """Return a value so that it differs from the other one."""
    return repr(value) if _shown(value) == _shown(other) else _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
