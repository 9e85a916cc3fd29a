"""The options of a target that is optimized, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._options import Promise, finite
from autopipe.cli.targets import load_dataset

if TYPE_CHECKING:
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["MeasureOption", "MeasuringOption", "optimized_target"]

MeasuringOption = Annotated[
    float,
    typer.Option(
        "--seconds",
        min=0,
        callback=finite,
        help="The most seconds to spend measuring the pipeline's elements; 0 does only what is certain.",
    ),
]
MeasureOption = Annotated[
    float,
    typer.Option(
        "--measure",
        metavar="SECONDS",
        min=0,
        callback=finite,
        help="The most seconds to spend measuring what autopipe would do; 0 reports only what is certain.",
    ),
]


def optimized_target(
    target: str, arguments: Mapping[str, Any], plan: Path | None, keeps: Promise, seconds: float
) -> OptimizedDataset:
    """Return what ``autopipe.optimize()`` makes of the dataset that a target returns.

    Raises:
        AutopipeError: if the plan or the target is wrong.
        UserCodeError: if the target's code raises.
    """
    import autopipe
    from autopipe.planning.plans.plan import Plan

    # What is loaded may go to another folder.
    given = Plan.load(plan) if plan else None
    written = load_dataset(target, arguments)
    with running_users_pipeline(target):
        return autopipe.optimize(written, plan=given, keeps=keeps.value, seconds=seconds)
