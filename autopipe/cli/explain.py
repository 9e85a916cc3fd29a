from __future__ import annotations

import json
from collections.abc import Set
from typing import Annotated

import typer

from autopipe.arguments import MEASURING_SECONDS
from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._optimizing import MeasureOption
from autopipe.cli._options import (
    Arguments,
    AsJson,
    KeepsOption,
    ModelOption,
    PlanOption,
    Promise,
    StepOption,
    Target,
    consumer_of,
    finite,
    parse_arguments,
    refuse_both,
)
from autopipe.cli._output import draw
from autopipe.cli.targets import anchored, load_dataset
from autopipe.quiet import load_tensorflow

__all__ = ["LEAST_SECONDS", "explain"]

# That of autopipe.planning.costs.profiling, which needs a slow import.
LEAST_SECONDS = 0.2


def _enough(seconds: float) -> float:
    """Return the seconds to run a pipeline; a shorter run says nothing about its costs."""
    if finite(seconds) and seconds < LEAST_SECONDS:
        raise typer.BadParameter(f"must be at least {LEAST_SECONDS:g}, or 0 for no costs, but got {seconds:g}.")
    return seconds


def explain(
    target: Target,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    model: ModelOption = None,
    step_ms: StepOption = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=0,
            callback=_enough,
            help=f"How long to run the pipeline for its costs, at least {LEAST_SECONDS:g}; 0 leaves them out.",
        ),
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
    has_consumer = model is not None or step_ms is not None
    if has_consumer and not seconds:
        raise typer.BadParameter(
            "must be above 0 with --model or --step-ms, which wait while it runs, but got 0.", param_hint="--seconds"
        )
    load_tensorflow()
    import autopipe
    from autopipe.planning.plans.plan import Plan

    sought = set(fail_on or ())
    _refuse_unsought(sought, has_consumer=has_consumer, has_costs=seconds > 0)
    given = Plan.load(plan) if plan else None
    # Code that is loaded first may change the working directory.
    of_model = model and anchored(model)
    dataset = load_dataset(target, arguments)
    consumer = consumer_of(of_model, step_ms) if has_consumer else None
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
        draw(account)
    stands_out = {finding.code for finding in account.findings} & sought
    if stands_out:
        typer.echo(f"Found {', '.join(sorted(stands_out))}, which --fail-on names.", err=True)
        raise typer.Exit(1)


def _refuse_unsought(codes: Set[str], *, has_consumer: bool, has_costs: bool) -> None:
    """Refuse unknown findings, and those that would not be looked for."""
    from autopipe.report.findings import CODES, CODES_OF_CONSUMERS, CODES_OF_COSTS

    unknown = sorted(codes - set(CODES))
    if unknown:
        raise typer.BadParameter(f"must be one of {', '.join(CODES)}, but got {unknown[0]!r}.", param_hint="--fail-on")
    if not has_consumer:
        _refuse(CODES_OF_CONSUMERS & codes, "--model or --step-ms")
    if not has_costs:
        _refuse(CODES_OF_COSTS & codes, "--seconds above 0")


def _refuse(codes: Set[str], needed: str) -> None:
    """Refuse findings that could never be found, and so never fail."""
    if codes:
        raise typer.BadParameter(
            f"must be a finding that is looked for, but {min(codes)} needs {needed}.", param_hint="--fail-on"
        )
