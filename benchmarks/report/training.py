"""The table of training runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.report.numbers import with_spread
from benchmarks.training import FREE, TrainingResult, VariantTraining

__all__ = ["training_lines"]


def training_lines(results: Sequence[TrainingResult]) -> list[str]:
    """Return a table for all cases, and one for what the tuner did."""
    if not results:
        return []
    gpu = results[0].gpu
    busy = f"utilization of the {gpu}" if gpu else "share of the epoch in which the model did not wait for data"
    model = "ResNet-50 for images, a small Keras model for the rest" if gpu else "A small Keras model for each"
    lines = [
        "## Training",
        "",
        f"{model}, trained from each variant of the pipeline, an epoch in turn. Seconds "
        f"per epoch: the median of the turns after the first. Busy: the {busy}. Of the ceiling: steps per second as a "
        f"share of those on {FREE}, the same model on one batch from memory. Ratios are taken within a round: the "
        "median, with the lowest and highest.",
        "",
        "| | pipeline | trained from | `optimize()`, s | first epoch, s | epoch, s | busy | times expert "
        "| of the ceiling |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        for number, (variant, run) in enumerate(result.variants.items()):
            place = f"| {result.letter} | {result.name} " if not number else "| | "
            lines.append(
                f"{place}| {variant} | {_figures(run)} | {result.ratio(variant)} | {_share(result, variant)} |"
            )
    return [*lines, "", *_tuning_lines(results)]


def _figures(run: VariantTraining) -> str:
    preparing = f"{run.preparing_seconds:.1f}" if run.preparing_seconds else ""
    epoch, busy = with_spread(run.epoch_seconds, ".2f"), with_spread(run.busy, ".0%")
    return f"{preparing} | {run.first_epoch_seconds:.2f} | {epoch} | {busy}"


def _share(result: TrainingResult, variant: str) -> str:
    ratio = result.ratio(variant, FREE)
    return "" if variant == FREE else f"{ratio.median:.0%} ({ratio.lowest:.0%}-{ratio.highest:.0%})"


def _tuning_lines(results: Sequence[TrainingResult]) -> list[str]:
    lines = [
        "The tuner worked in a `fit` of its own before the turns. Where training hardly waits, that may be over before "
        "it has tried anything:",
        "",
        "| pipeline | seconds of that `fit` | in trials | trials | kept | epoch while tuning, s | epoch after, s |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        for run in result.variants.values():
            if run.tuning is None:
                continue
            tuning, after = run.tuning, statistics.median(run.epoch_seconds)
            lines.append(
                f"| {result.name} | {tuning.seconds:.1f} | {tuning.trial_seconds:.1f} | {tuning.trials} "
                f"| {tuning.kept} | {tuning.epoch_seconds:.2f} | {after:.2f} |"
            )
    return [*lines, ""]
