"""The command named as this file."""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Annotated, Any

import typer

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._optimizing import MEASURING_SECONDS, MeasureOption
from autopipe.cli._options import (
    Arguments,
    AsJson,
    KeepsOption,
    ModelOption,
    PlanOption,
    Promise,
    StepOption,
    Target,
    finite,
    parse_arguments,
    refuse_both,
)
from autopipe.cli._output import console
from autopipe.cli.targets import anchored, load_dataset, load_model
from autopipe.quiet import load_tensorflow

__all__ = ["explain"]


def explain(
    target: Target,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    model: ModelOption = None,
    step_ms: StepOption = None,
    seconds: Annotated[
        float,
        typer.Option(min=0, callback=finite, help="How long to run the pipeline for its costs; 0 leaves them out."),
    ] = 4.0,
    measure: MeasureOption = MEASURING_SECONDS,
    keeps: KeepsOption = Promise.TRAINING,
    as_json: AsJson = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Exit with 1 if this finding stands out, for CI; may be given again."),
    ] = None,
) -> None:
    """Show what limits a pipeline, what autopipe would do about it and why, and what it refuses. Changes nothing."""
    arguments = parse_arguments(arg)
    refuse_both(model, step_ms)
    load_tensorflow()
    import autopipe
    from autopipe.planning.plans.plan import Plan
    from autopipe.report.findings import CODES, CODES_OF_CONSUMERS, CODES_OF_COSTS

    unknown = sorted(set(fail_on or ()) - set(CODES))
    if unknown:
        raise typer.BadParameter(f"must be one of {', '.join(CODES)}, but got {unknown[0]!r}.", param_hint="--fail-on")
    if model is None and step_ms is None:
        _refuse(CODES_OF_CONSUMERS.intersection(fail_on or ()), "--model or --step-ms")
    if not seconds:
        _refuse(CODES_OF_COSTS.intersection(fail_on or ()), "--seconds above 0")
    given = Plan.load(plan) if plan else None
    # What is loaded first may go to another folder.
    of_model = model and anchored(model)
    dataset = load_dataset(target, arguments)
    consumer = _consumer(of_model, step_ms)
    with running_users_pipeline(target if model is None else f"{target} or {model}"):
        account = autopipe.explain(
            dataset,
            keeps=keeps.value,
            plan=given,
            seconds=seconds,
            consumer=consumer,
            measuring_seconds=measure,
        )
    if as_json:
        typer.echo(json.dumps(account.to_dict(), indent=2))
    else:
        console().print(account)
    stands_out = {finding.code for finding in account.findings} & set(fail_on or ())
    if stands_out:
        typer.echo(f"Found {', '.join(sorted(stands_out))}, which --fail-on names.", err=True)
        raise typer.Exit(1)


def _refuse(codes: Set[str], needed: str) -> None:
    """Refuse what would never be found, and so never fail."""
    if codes:
        raise typer.BadParameter(
            f"must be a finding that is looked for, but {min(codes)} needs {needed}.", param_hint="--fail-on"
        )


def _consumer(model: str | None, step_ms: float | None) -> Any:
    from autopipe.tuning.consumer import ModelSteps, StandIn

    if model is not None:
        return ModelSteps(load_model(model))
    return None if step_ms is None else StandIn(step_ms / 1000)
