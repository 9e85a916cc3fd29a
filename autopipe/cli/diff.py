from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._options import Arguments, AsJson, parse_arguments
from autopipe.cli._output import draw
from autopipe.cli.targets import anchored, load_dataset
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.planning.plans.plan import Plan
    from autopipe.report.differences import Side

__all__ = ["diff"]

_DIFFERENT = 1
_HELP = "A plan ([bold]plan.json[/]) or a pipeline: [bold]file.py:function[/] or [bold]module:function[/]."
_A = Annotated[str, typer.Argument(metavar="A", help=_HELP, show_default=False)]
_B = Annotated[str, typer.Argument(metavar="B", help=_HELP, show_default=False)]


def diff(a: _A, b: _B, *, arg: Arguments = None, as_json: AsJson = False) -> None:
    """Show what differs between two plans, two pipelines, or a pipeline with a plan applied and as it was written."""
    from autopipe.planning.plans.plan import Plan
    from autopipe.report.differences import differences

    arguments = parse_arguments(arg)
    for name in (a, b):
        if ":" not in name and not name.endswith(".json"):
            raise typer.BadParameter(f"must be a plan, whose name ends in .json, or file.py:function, but got {name}.")
    if arg and all(name.endswith(".json") for name in (a, b)):
        raise typer.BadParameter("is of a pipeline, but both are plans. Leave it out.", param_hint="--arg")
    plans = [Plan.load(name) if name.endswith(".json") else None for name in (a, b)]
    first, second = _sides((a, b), plans, arguments)
    found = differences(first, second)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        draw(found)
    if not found.equal:
        raise typer.Exit(_DIFFERENT)


def _sides(names: tuple[str, str], plans: list[Plan | None], arguments: dict[str, Any]) -> list[Side]:
    from autopipe.report.differences import Side

    if None not in plans:
        return [Side(name, plan, stored=True) for name, plan in zip(names, plans, strict=True) if plan]
    load_tensorflow()
    targets = [name for name, plan in zip(names, plans, strict=True) if plan is None]
    # The first that is loaded may go to another folder.
    where = [*targets[:1], *map(anchored, targets[1:])]
    datasets = {name: load_dataset(place, arguments) for name, place in zip(targets, where, strict=True)}
    sides = []
    for name, plan in zip(names, plans, strict=True):
        if plan is None:
            sides.append(_as_written(name, datasets[name]))
        else:
            ((target, dataset),) = datasets.items()
            sides.append(_with_plan(name, plan, target, dataset))
    return sides


def _as_written(name: str, dataset: Any) -> Side:
    from autopipe.pipeline.extract import extract
    from autopipe.planning.plans.fingerprint import fingerprint
    from autopipe.planning.plans.plan import Plan
    from autopipe.report.differences import Side
    from autopipe.report.stages import stages_of

    tree = extract(dataset)
    return Side(name, Plan(fingerprint(tree)), stages_of(tree))


def _with_plan(name: str, plan: Plan, target: str, dataset: Any) -> Side:
    """Return a plan as what it makes of the pipeline; of another pipeline than its own it makes nothing."""
    import autopipe
    from autopipe.pipeline.extract import extract
    from autopipe.planning.plans.fingerprint import fingerprint
    from autopipe.report.differences import Side
    from autopipe.report.stages import stages_of

    if plan.fingerprint != fingerprint(extract(dataset)):
        return Side(name, plan)
    with running_users_pipeline(target):
        account = autopipe.optimize(dataset, plan=plan).explain()
    set_by_plan = {knob: value for knob, value in account.plan.knobs.items() if value != account.unset.get(knob)}
    return Side(name, replace(account.plan, knobs=set_by_plan), stages_of(account.as_run))
