"""The command named as this file."""

from __future__ import annotations

from typing import Annotated

import typer

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._options import Arguments, KeepsOption, PlanOption, Promise, Target, finite, parse_arguments
from autopipe.cli.targets import load_dataset
from autopipe.quiet import load_tensorflow

__all__ = ["source"]

_INCOMPLETE = 1


def source(
    target: Target,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    keeps: KeepsOption = Promise.TRAINING,
    seconds: Annotated[
        float,
        typer.Option(
            min=0, callback=finite, help="How long to measure at the most; with 0 only what is certain is done."
        ),
    ] = 30.0,
    partial: Annotated[
        bool, typer.Option("--partial", help="Exit with 0 also where a function autopipe made is left out.")
    ] = False,
) -> None:
    """Print plain tf.data code that does what the optimized pipeline does. Arrays become arguments of its function."""
    arguments = parse_arguments(arg)
    load_tensorflow()
    import autopipe
    from autopipe.planning.plans.plan import Plan
    from autopipe.report.source import source_of

    given = Plan.load(plan) if plan else None
    written = load_dataset(target, arguments)
    with running_users_pipeline(target):
        dataset = autopipe.optimize(written, plan=given, keeps=keeps.value, seconds=seconds)
    found = source_of(dataset.explain().rewriting, dataset.tree, target)
    typer.echo(found.code, nl=False)
    for missing in found.unwritten:
        typer.echo(f"Not written: {missing}", err=True)
    if found.unwritten and not partial:
        raise typer.Exit(_INCOMPLETE)
