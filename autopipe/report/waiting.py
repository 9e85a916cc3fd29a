"""A sign of life at a terminal while something takes long."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

__all__ = ["shown_if_long"]

_LONG_SECONDS = 2.0


@contextmanager
def shown_if_long(what: str, after: float = _LONG_SECONDS) -> Iterator[None]:
    """Show what takes long, and how long already, in one line that is gone at the end.

    Nothing is shown if standard error is not a terminal, or in a child process, whose parent may show a bar.

    Args:
        what: what takes long.
        after: seconds for which nothing is shown.

    >>> with shown_if_long("counting"):
    ...     sum(range(10))
    45
    """
    if not _is_at_a_terminal() or multiprocessing.parent_process() is not None:
        yield
        return
    over = Event()
    shows = Thread(target=_show, args=(what, after, over), daemon=True)
    shows.start()
    try:
        yield
    finally:
        over.set()
        shows.join()


def _is_at_a_terminal() -> bool:
    """Return whether standard error is a terminal; it may be closed, missing, or any object with ``write()``."""
    with suppress(AttributeError, ValueError):
        return bool(sys.stderr.isatty())
    return False


def _show(what: str, after: float, over: Event) -> None:
    if over.wait(after):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    line = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        # What the program itself prints is left alone.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with line:
        line.add_task(what, total=None)
        over.wait()
