"""The figures of the epochs of a training run, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from autopipe.figures import bar, rate_text

__all__ = ["epochs_table"]

# By the names under which they stand in Keras logs: the heading, and whether it is a share.
_COLUMNS = {
    "input_stall": ("waits for data", True),
    "gpu_utilization": ("GPU busy", True),
    "host_utilization": ("cores busy", True),
    "steps_per_second": ("steps/s", False),
}


def epochs_table(epochs: Mapping[int, Mapping[str, float]]) -> Table:
    """Return a table with a row for each epoch; what was not measured has no column.

    Args:
        epochs: the figures of each epoch by its number, and by their names in Keras logs.

    >>> from rich.console import Console
    >>> table = epochs_table({7: {"input_stall": 0.5, "steps_per_second": 120.0}})
    >>> console = Console(width=60)
    >>> with console.capture() as shown:
    ...     console.print(table)
    >>> [line.split() for line in shown.get().splitlines() if "%" in line]
    [['7', '████', '50%', '120']]
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("epoch", justify="right")
    known = {name: column for name, column in _COLUMNS.items() if any(name in epoch for epoch in epochs.values())}
    for heading, is_share in known.values():
        table.add_column(heading, justify="left" if is_share else "right")
    for number, epoch in epochs.items():
        cells = (_cell(epoch.get(name), is_share) for name, (_, is_share) in known.items())
        table.add_row(Text(str(number)), *cells)
    return table


def _cell(value: float | None, is_share: bool) -> Text:
    if value is None:
        return Text("")
    if not is_share:
        return Text(rate_text(value))
    return Text(f"{bar(value)}{value:>5.0%}")
