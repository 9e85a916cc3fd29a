"""The table of all pipelines, and the summary line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.measuring import AGAIN, VARIANTS, CaseResult

__all__ = ["case_lines", "summary"]


_LEFT_AS_WRITTEN = (
    "\\* Its work is Python code that nobody declares stateless: it is called as often, and in the order, that it was "
    "written, and only what stands around it is changed. It is not in the summary; the same job with that declaration "
    "is."
)


def summary(results: Sequence[CaseResult]) -> str:
    """Return the last line that is printed; where nothing else was measured, what is left as written counts too."""
    results = [each for each in results if not each.left_as_written] or results
    ours = {each.name: each.ratio("autopipe(naive)").median for each in results}
    to_best = [each.ratio("autopipe(naive)", "best").median for each in results]
    on_expert = {each.name: each.ratio("autopipe(expert)").median for each in results}
    worst, worst_expert = min(ours, key=ours.__getitem__), min(on_expert, key=on_expert.__getitem__)
    return (
        f"summary: autopipe(naive)/expert geomean {_geomean(list(ours.values())):.2f} "
        f"worst {ours[worst]:.2f} ({worst}), "
        f"autopipe(naive)/best geomean {_geomean(to_best):.2f}, "
        f"autopipe(expert)/expert worst {on_expert[worst_expert]:.2f} ({worst_expert})"
    )


def case_lines(results: Sequence[CaseResult]) -> list[str]:
    """Return the table: the rates, the ratios with their spread, and the summary."""
    if not results:
        return []
    ours = [each.variants[variant] for each in results for variant in ("autopipe(naive)", "autopipe(expert)")]
    prepared = sorted(variant.preparing_seconds for variant in ours)
    lines = [
        "Units per second after the first epoch (medians), and ratios to *expert* within each round: the median, "
        "with the lowest and highest. *Expert again* is a second instance of *expert*: so much do two equal pipelines "
        f"differ. What autopipe took to prepare its pipelines, {prepared[0]:.1f} to {prepared[-1]:.1f} s each, is not "
        "in the rates: `optimize()` and, but for `make bench-quick`, the offline search of the knobs.",
        "",
        "| | pipeline | unit | naive | expert | best by hand | autopipe(naive) | ÷ expert | ÷ best "
        "| autopipe(expert) ÷ expert | expert again ÷ expert | rules on naive |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for each in results:
        rates = [f"{each.variants[variant].rate:,.0f}" for variant in VARIANTS[:4]]
        lines.append(
            f"| {each.letter} | {each.name}{'*' * each.left_as_written} | {each.unit} | {' | '.join(rates)} "
            f"| {each.ratio('autopipe(naive)')} | {each.ratio('autopipe(naive)', 'best')} "
            f"| {each.ratio('autopipe(expert)')} | {each.ratio(AGAIN)} "
            f"| {', '.join(each.variants['autopipe(naive)'].rules) or 'none'} |"
        )
    if any(each.left_as_written for each in results):
        lines += ["", _LEFT_AS_WRITTEN]
    return [*lines, "", f"`{summary(results)}`", ""]


def _geomean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
