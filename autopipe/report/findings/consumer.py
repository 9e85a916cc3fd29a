"""Findings about the pace of the pipeline beside that of its consumer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autopipe.pipeline import ir
from autopipe.pipeline.text import stage
from autopipe.planning.costs.diagnosis import LEAST_WAITING
from autopipe.report.findings._base import Finding, Look, Seen

__all__ = ["LOOKS"]

_MUCH_FASTER = 2.0


def input_slower(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP301: the consumer waits."""
    found = seen.diagnosis
    if not isinstance(node, ir.End) or found is None or found.waiting is None or found.waiting < LEAST_WAITING:
        return
    slowest = found.bottleneck.stage if found.bottleneck else None
    yield Finding(
        "AP301",
        slowest.stage if slowest else stage(node.input),
        f"the consumer waits {found.waiting:.0%} of each step for input",
        "autopipe.optimize(dataset), and PipelineTuner() in fit",
        slowest.line if slowest else node.input.line,
        f"up to {1 / (1 - found.waiting):.1f}x the steps per second" if found.waiting < 1 else None,
    )


def input_faster(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP302: the pipeline could be much faster than its consumer needs."""
    found = seen.diagnosis
    if not isinstance(node, ir.End) or found is None or found.waiting is None or not found.free_rate:
        return
    spare = found.ceiling.rate / found.free_rate
    if found.waiting < LEAST_WAITING and spare >= _MUCH_FASTER:
        yield Finding(
            "AP302",
            stage(node.input),
            f"input could be {spare:.1f}x as fast as the consumer takes it",
            "give threads, calls and buffers back: PipelineTuner() finds the least that is enough",
            node.input.line,
        )


LOOKS: Mapping[str, Look] = {"AP301": input_slower, "AP302": input_faster}
