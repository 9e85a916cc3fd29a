"""What a command prints: its own lines and nothing else, as wide as there is room."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from autopipe.errors import AutopipeError
from autopipe.printing import WIDTH

__all__ = ["draw", "output_apart"]


class OutputError(AutopipeError):
    """What a command prints cannot be written, as on a full disk."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            # The reader has seen enough, as head has.
            raise
        except OSError as error:
            raise OutputError(
                f"What a command prints must be written, but the output could not be ({error}). Redirect it elsewhere."
            ) from error


@contextmanager
def output_apart() -> Iterator[None]:
    """Keep the output for the command's own lines: what C code and other processes print goes to standard error."""
    _open_error_output()
    try:
        own = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        # It was closed before the start.
        yield
        return
    was = sys.stdout
    encoding = getattr(was, "encoding", None) or "utf-8"
    raw = _Output(own, "w")
    buffered = io.BufferedWriter(raw)
    # A character that the encoding lacks is printed as a question mark.
    sys.stdout = io.TextIOWrapper(buffered, encoding=encoding, errors="replace", line_buffering=raw.isatty())
    try:
        yield
    finally:
        sys.stdout = was


def _open_error_output() -> None:
    """Lead errors nowhere if their output was closed before the start: what is opened next would be in its place."""
    try:
        os.fstat(2)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere == 2:
            os.set_inheritable(2, True)
        else:
            # Another output, or the input, is closed too.
            os.dup2(nowhere, 2)
            os.close(nowhere)


def draw(drawn: Any, *, soft_wrap: bool = False) -> None:
    """Print a table or a tree; without a terminal, in the default width and without trailing blanks."""
    console = Console()
    if console.is_terminal:
        console.print(drawn, soft_wrap=soft_wrap)
        return
    if "COLUMNS" not in os.environ:
        console.width = WIDTH
    with console.capture() as captured:
        console.print(drawn, soft_wrap=soft_wrap)
    print("\n".join(line.rstrip() for line in captured.get().split("\n")), end="", flush=True)
