from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autopipe.cli._output import draw
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.rules import Rule

__all__ = ["markdown", "rules"]

_HEADINGS = ("rule", "before", "after", "keeps", "must prove")


def rules(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also say why each rule is safe.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table, and what must be proved, as Markdown.")
    ] = False,
) -> None:
    """List the rules by which autopipe rewrites pipelines, what each of them keeps and what it must prove."""
    if verbose and as_markdown:
        raise typer.BadParameter("draws no table of Markdown; give one of the two.", param_hint="--verbose")
    load_tensorflow()
    from autopipe.rules import catalogue

    if as_markdown:
        typer.echo("\n".join(markdown(catalogue())))
        return
    draw(_table(catalogue()))
    if verbose:
        for rule in catalogue():
            draw(Text(f"\n{rule.name}", style="bold"))
            draw(Padding(Text(" ".join(rule.argument.split())), (0, 0, 0, 2)))


def markdown(listed: Iterable[Rule]) -> list[str]:
    """Return the lines of ``docs/rules.md`` that tell what rules do, and what each of their obligations means."""
    rows: list[str] = []
    said: dict[str, str] = {}
    for rule in listed:
        name, before, after, *rest = (cell.replace("|", "\\|") for cell in _cells(rule))
        rows.append(f"| `{name}` | `{before}` | `{after}` | {' | '.join(rest)} |")
        said |= rule.sentences
    table = [f"| {' | '.join(_HEADINGS)} |", "|---|---|---|---|---|", *rows]
    meanings = [f"- `{name}`: {said[name].replace('``', '`')}" for name in sorted(said)]
    return [*table, "", "What must be proved:", "", *meanings]


def _table(listed: Iterable[Rule]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    for heading in _HEADINGS:
        table.add_column(heading, no_wrap=heading in ("rule", "keeps"))
    for rule in listed:
        table.add_row(*map(Text, _cells(rule)))
    return table


def _cells(rule: Rule) -> tuple[str, str, str, str, str]:
    before, _, after = rule.shape.partition("  ->  ")
    # A docstring begins with a capital; the name of a transformation does not.
    before = before[:1].lower() + before[1:]
    return rule.name, before.strip(), after.strip(), str(rule.keeps), ", ".join(rule.obligations)
