"""What the demo measures, and how it shows it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

__all__ = ["Speeds", "Training", "compare_speeds", "show_results", "train"]

_WINDOWS = 6
_WINDOW_SECONDS = 1.0
_BAR_WIDTH = 24
_COLOURS = ("yellow", "green")


@dataclass(frozen=True)
class Training:
    """What one ``fit`` took.

    Attributes:
        epoch_seconds: the median of its epochs after the first, which traces, compiles and fills caches.
        input_stall: the share of those epochs in which the model waited for data, 0 to 1.
        gpu_utilization: the mean of the GPUs in use, 0 to 1; ``None`` without one.
    """

    epoch_seconds: float
    input_stall: float
    gpu_utilization: float | None


@dataclass(frozen=True)
class Speeds:
    """Images per second of two pipelines with no model behind them.

    Attributes:
        before: one figure for each window of the pipeline as written.
        after: one for each window of the optimized pipeline, each measured next to its neighbour in ``before``.
    """

    before: list[float]
    after: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast each window was as its neighbour."""
        return [new / old for old, new in zip(self.before, self.after, strict=True)]


def train(model: Any, dataset: Any, *, title: str, epochs: int, callback: Any) -> Training:
    """Train with one progress bar in place of Keras' own output."""
    seconds: list[float] = []
    with _bar(title, "steps", total=epochs * int(dataset.cardinality())) as step:
        epoch_clock = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: seconds.append(-time.perf_counter()),
            on_epoch_end=lambda epoch, logs: seconds.append(seconds.pop() + time.perf_counter()),
            on_train_batch_end=lambda batch, logs: step(),
        )
        # The pipeline shuffles; Keras warns that it does not, unless told so.
        history = model.fit(dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[callback, epoch_clock]).history
    gpu = history.get("gpu_utilization", [])[1:]
    return Training(
        epoch_seconds=statistics.median(seconds[1:]),
        input_stall=statistics.median(history["input_stall"][1:]),
        gpu_utilization=statistics.median(gpu) if gpu else None,
    )


def compare_speeds(before: Any, after: Any) -> Speeds:
    """Read both pipelines in turn, so that a machine that slows down slows both."""
    speeds = Speeds([], [])
    with _bar("Both without a model", "windows", total=2 * _WINDOWS) as step:
        for dataset in (before, after):
            _images_per_second(dataset)  # fills the caches
        sides = ((before, speeds.before), (after, speeds.after))
        for number in range(_WINDOWS):
            # Neither always comes first.
            for dataset, figures in sides[:: -1 if number % 2 else 1]:
                figures.append(_images_per_second(dataset))
                step()
    return speeds


def show_results(console: Console, before: Training, after: Training, speeds: Speeds) -> None:
    """Print the table of both trainings and both speeds."""
    table = Table(title="Input pipeline", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("as written", justify="right", header_style=_COLOURS[0])
    table.add_column("optimized", justify="right", header_style=_COLOURS[1])
    table.add_column("")
    rows = [
        ("epoch, seconds", before.epoch_seconds, after.epoch_seconds, ".2f"),
        ("waiting for data", before.input_stall, after.input_stall, ".0%"),
        ("images/s, no model", statistics.median(speeds.before), statistics.median(speeds.after), ",.0f"),
    ]
    if before.gpu_utilization is not None and after.gpu_utilization is not None:
        rows.insert(2, ("GPU utilization", before.gpu_utilization, after.gpu_utilization, ".0%"))
    for name, left, right, figures in rows:
        table.add_row(name, format(left, figures), format(right, figures), _bars(left, right))
    console.print(table)
    ratios = speeds.ratios
    console.print(
        f"The pipeline alone is [bold]{statistics.median(ratios):.1f}x[/] as fast "
        f"({min(ratios):.1f}x to {max(ratios):.1f}x in {len(ratios)} pairs of neighbouring windows); "
        f"an epoch takes [bold]{after.epoch_seconds / before.epoch_seconds:.0%}[/] of the time it took."
    )


def _images_per_second(dataset: Any) -> float:
    """Read whole epochs for about a second, each with a new iterator as ``fit`` does, and return the speed."""
    images = 0
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < _WINDOW_SECONDS:
        images += sum(len(batch) for batch, _ in dataset)
    return images / seconds


def _bars(left: float, right: float) -> Text:
    most = max(left, right) or 1.0
    lengths = [round(_BAR_WIDTH * value / most) for value in (left, right)]
    return Text("\n").join(Text("█" * length, colour) for length, colour in zip(lengths, _COLOURS, strict=True))


@contextmanager
def _bar(title: str, unit: str, total: int) -> Iterator[Any]:
    columns = (TextColumn(f"{title:<22}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)
