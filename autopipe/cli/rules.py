"""The command named as this file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.rules import Rule

__all__ = ["rules"]


def rules(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also say why each rule is safe.")] = False,
) -> None:
    """List the rules by which autopipe rewrites pipelines, and what each of them keeps."""
    load_tensorflow()
    from autopipe.rules import catalogue

    console = Console()
    console.print(_table(catalogue()))
    if verbose:
        for rule in catalogue():
            console.print(Text(f"\n{rule.name}", style="bold"))
            console.print(Padding(Text(" ".join(rule.argument.split())), (0, 0, 0, 2)))


def _table(listed: Iterable[Rule]) -> Table:
    table = Table("rule", "before", "after", "keeps")
    for rule in listed:
        before, _, after = rule.shape.partition("->")
        # A docstring begins with a capital; the name of a transformation does not.
        before = before[:1].lower() + before[1:]
        table.add_row(*map(Text, (rule.name, before.strip(), after.strip(), str(rule.keeps))))
    return table
