"""Printing in the midst of somebody else's program, whose output may be anything."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

__all__ = ["show"]


def show(*parts: Any) -> None:
    """Print texts and tables. What the output has no sign for becomes a question mark: a training is not to end of it.

    >>> show("busy 0.98")
    busy 0.98
    """
    console = Console()
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(captured.get().encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
