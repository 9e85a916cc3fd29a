from __future__ import annotations

from typing import Annotated

import typer

from autopipe.arguments import MEASURING_SECONDS
from autopipe.cli._optimizing import MeasuringOption, optimized_target
from autopipe.cli._options import Arguments, KeepsOption, PlanOption, Promise, Target, parse_arguments
from autopipe.quiet import load_tensorflow

__all__ = ["source"]

_INCOMPLETE = 1


def source(
    target: Target,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    keeps: KeepsOption = Promise.TRAINING,
    seconds: MeasuringOption = MEASURING_SECONDS,
    partial: Annotated[
        bool, typer.Option("--partial", help="Exit with 0 also where a function autopipe made is left out.")
    ] = False,
) -> None:
    """Print plain tf.data code that does what the optimized pipeline does. Arrays become arguments of its function."""
    arguments = parse_arguments(arg)
    load_tensorflow()
    from autopipe.report.source import source_of

    dataset = optimized_target(target, arguments, plan, keeps, seconds)
    found = source_of(dataset.explain().rewriting, dataset.tree, target)
    typer.echo(found.code, nl=False)
    for missing in found.unwritten:
        typer.echo(f"Not written: {missing}", err=True)
    if found.unwritten and not partial:
        raise typer.Exit(_INCOMPLETE)
