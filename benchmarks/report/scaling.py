"""The tables of how costs and throughput grow."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cores import SIMULATED, CoreScaling
from benchmarks.report.numbers import with_spread
from benchmarks.scaling import PlanningCost, ScalingResult, TunerCost

__all__ = ["scaling_lines"]


def scaling_lines(result: ScalingResult | None) -> list[str]:
    """Return the tables of a part that ran."""
    if result is None:
        return []
    return [
        "## Scaling",
        "",
        *_planning_lines([*result.by_stages, *result.by_elements]),
        *_core_lines(result.cores),
        *_tuner_lines(result.tuner),
    ]


def _planning_lines(costs: Sequence[PlanningCost]) -> list[str]:
    lines = [
        "What `optimize()` takes for chains of cheap stages; the median, with the lowest and highest:",
        "",
        "| stages | elements | seconds | rewrites |",
        "|---:|---:|---:|---:|",
    ]
    for each in costs:
        seconds = each.failure or with_spread(each.seconds, ".1f")
        lines.append(f"| {each.stages} | {each.elements:,} | {seconds} | {each.rewrites} |")
    return [*lines, ""]


def _core_lines(scalings: Sequence[CoreScaling]) -> list[str]:
    if not scalings:
        return []
    lines = [
        "Units per second by cores. Predicted: as many cores as there are, each as fast as one is, up to what the "
        "busiest chain of serial stages lets through; coordination is not in it. Where it "
        "was measured (medians), that stands before the prediction.",
        "",
        f"| | pipeline | variant | CPU µs per unit | serial µs | {' | '.join(map(_cores, SIMULATED))} |",
        f"|---|---|---|---:|---:|{'---:|' * len(SIMULATED)}",
    ]
    for each in scalings:
        rates = " | ".join(_rate(each, cores) for cores in SIMULATED)
        lines.append(
            f"| {each.letter} | {each.name} ({each.unit}) | {each.variant} | {1e6 * each.cpu_seconds:,.1f} "
            f"| {1e6 * each.serial_seconds:,.1f} | {rates} |"
        )
    return [*lines, ""]


def _cores(count: int) -> str:
    return f"{count} core{'s' if count > 1 else ''}"


def _rate(scaling: CoreScaling, cores: int) -> str:
    predicted, measured = f"{scaling.predicted(cores):,.0f}", scaling.measured(cores)
    return f"{with_spread(measured, ',.0f')} / {predicted}" if measured else predicted


def _tuner_lines(costs: Sequence[TunerCost]) -> list[str]:
    if not costs:
        return []
    lines = [
        "What the tuner takes, on what autopipe made of *naive*, read as fast as it goes. Lost: by challengers that "
        "were slower than their neighbours, less what faster ones gained.",
        "",
        "| | pipeline | seconds | in trials | share | lost, s | trials | kept | before, units/s | after |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {each.letter} | {each.name} | {each.seconds:.1f} | {each.trial_seconds:.1f} "
        f"| {each.trial_seconds / each.seconds:.0%} | {each.lost_seconds:.1f} | {each.trials} | {each.kept} "
        f"| {each.rate_before:,.0f} | {each.rate_after:,.0f} |"
        for each in costs
    ]
    return [*lines, ""]
