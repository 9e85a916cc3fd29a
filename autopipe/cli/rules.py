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

__all__ = ["markdown_table", "rules"]

_HEADINGS = ("rule", "before", "after", "keeps", "must prove")


def rules(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also say why each rule is safe.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
) -> None:
    """List the rules by which autopipe rewrites pipelines, what each of them keeps and what it must prove."""
    if verbose and markdown:
        raise typer.BadParameter("draws no table of Markdown; give one of the two.", param_hint="--verbose")
    load_tensorflow()
    from autopipe.rules import catalogue

    if markdown:
        typer.echo("\n".join(markdown_table(catalogue())))
        return
    draw(_table(catalogue()))
    if verbose:
        for rule in catalogue():
            draw(Text(f"\n{rule.name}", style="bold"))
            draw(Padding(Text(" ".join(rule.argument.split())), (0, 0, 0, 2)))


def markdown_table(listed: Iterable[Rule]) -> list[str]:
    """Return the lines of the table as ``docs/rules.md`` shows it."""
    rows = []
    for rule in listed:
        name, before, after, *rest = (cell.replace("|", "\\|") for cell in _cells(rule))
        rows.append(f"| `{name}` | `{before}` | `{after}` | {' | '.join(rest)} |")
    return [f"| {' | '.join(_HEADINGS)} |", "|---|---|---|---|---|", *rows]


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
