"""What each stage of a pipeline costs, as a table."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from autopipe.figures import bar, bytes_text, duration_text

__all__ = ["costs_table"]

# The columns after the stage, and the terminal width from which each is shown, so that the stage stays readable.
_COLUMNS = {"Time": 40, "Work": 0, "Calls": 56, "Gives": 64, "Holds": 72}
_WITH_BAR = 30
_STAGE = 10


def costs_table(profile: Any, width: int) -> Table:
    """Return a table of the stages, source first, with what each costs for one element of the pipeline.

    Args:
        profile: an ``autopipe.planning.costs.profile.Profile``, which is shown by this.
        width: how many columns the terminal has.

    >>> import tensorflow as tf, autopipe
    >>> profile = autopipe.profile(tf.data.Dataset.range(100_000).batch(10), seconds=0.2)
    >>> table = costs_table(profile, width=60)
    >>> [column.header for column in table.columns], table.row_count
    (['Stage', 'Time', 'Work', 'Calls'], 2)
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=Text(_caption(profile)), caption_justify="left")
    table.add_column("Stage", overflow="fold", min_width=_STAGE)
    shown = [name for name, least in _COLUMNS.items() if width >= least]
    for name in shown:
        table.add_column(name, justify="left" if name == "Work" else "right", no_wrap=True)
    largest = max((each.share for each in profile.stages), default=0.0)
    for each in profile.stages:
        cells = _cells(each, with_bar=width >= _WITH_BAR)
        table.add_row(_name(each), *(cells[name] for name in shown), style="bold red" if each.share == largest else "")
    return table


def _caption(profile: Any) -> str:
    filling = ", in a first epoch, in which its cache fills" if profile.filling else ""
    busy = f"{profile.stretch.cores:.1f} of {profile.machine.cores:g} cores busy"
    one = "one element of the pipeline" if profile.batch is None else "one batch"
    lines = [f"{profile.in_words(profile.stretch.rate)} with {busy}; times are for {one}{filling}"]
    if profile.untuned:
        lines.append("run with AUTOTUNE, which the pipeline turns off: TensorFlow counts nothing without it")
    if profile.failed:
        several = "elements" if profile.failed > 1 else "element"
        lines.append(f"{profile.failed:,} {several} raised and were skipped, the first: {profile.failure}")
    return "\n".join(lines)


def _name(stage: Any) -> Text:
    name = f"{stage.stage} + {stage.fused_with}" if stage.fused_with else stage.stage
    return Text.assemble(name, (f"  {stage.line}", "dim")) if stage.line else Text(name)


def _cells(stage: Any, with_bar: bool) -> dict[str, str]:
    return {
        "Time": duration_text(stage.seconds_per_element),
        "Work": f"{bar(stage.share)} {stage.share:4.0%}" if with_bar else f"{stage.share:4.0%}",
        "Calls": "" if stage.parallelism is None else str(stage.parallelism),
        "Gives": bytes_text(stage.bytes_per_element),
        "Holds": bytes_text(stage.buffered_bytes) if stage.buffered_bytes else "",
    }
