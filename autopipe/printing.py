"""Printing inside another program, whose output may be anything, and into a text."""

from __future__ import annotations

import sys
from contextlib import suppress
from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = ["WIDTH", "as_text", "heading", "show"]

# Columns of what is drawn where no terminal has its own.
WIDTH = 110


def as_text(drawn: Any, width: int) -> str:
    """Return a printable object as plain text of this width.

    >>> from rich.padding import Padding
    >>> as_text(Padding("busy", (0, 0, 0, 2)), width=20)
    '  busy'
    """
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def heading(text: str) -> Text:
    """Return the heading of a part of a report."""
    return Text(text, style="bold")


def show(*parts: Any) -> None:
    """Print texts and tables, where they can be printed: a training is not to end of it.

    What the output has no sign for becomes a question mark.

    >>> show("busy 0.98")
    busy 0.98
    """
    console = Console()
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # The output may be missing, closed, or lead to a full disk or a closed pipe.
    with suppress(AttributeError, OSError, ValueError):
        sys.stdout.write(captured.get().encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
