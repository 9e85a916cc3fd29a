"""The command named as this file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._options import Arguments, AsJson, KeepsOption, PlanOption, Promise, finite, parse_arguments
from autopipe.cli.targets import load_dataset
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.search_spaces import SearchSpace

__all__ = ["spaces"]


def spaces(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="A pipeline, [bold]file.py:function[/], to show what each space would search for it.",
            show_default=False,
        ),
    ] = None,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    keeps: KeepsOption = Promise.TRAINING,
    seconds: Annotated[
        float,
        typer.Option(
            min=0, callback=finite, help="How long to measure the pipeline at the most; 0 does only what is certain."
        ),
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """List the search spaces of autopipe tune and what each is for; with a pipeline, also what each would try there."""
    if target is None and (arg or plan):
        raise typer.BadParameter("--plan and --arg are of a pipeline, but none was named. Give file.py:function first.")
    arguments = parse_arguments(arg)
    load_tensorflow()
    from autopipe.search_spaces import SPACES

    listed: dict[str, dict[str, Any]] = {name: {"for": _first_sentence(space)} for name, space in SPACES.items()}
    if target is not None:
        knobs = _knobs(target, arguments, plan, keeps, seconds)
        for name, space in SPACES.items():
            listed[name]["tries"] = _tried(space, knobs)
    if as_json:
        typer.echo(json.dumps(listed, indent=2))
        return
    for line in _lines(listed):
        Console().print(line, soft_wrap=True)


def _knobs(target: str, arguments: dict[str, Any], plan: Any, keeps: Promise, seconds: float) -> Any:
    import autopipe
    from autopipe.pipeline.knobs import read_knobs
    from autopipe.planning.plans.plan import Plan

    given = Plan.load(plan) if plan else None
    written = load_dataset(target, arguments)
    with running_users_pipeline(target):
        return read_knobs(autopipe.optimize(written, plan=given, keeps=keeps.value, seconds=seconds).tree)


def _first_sentence(space: SearchSpace) -> str:
    sentence = (space.__doc__ or "").strip().partition("\n")[0]
    return sentence.removeprefix("Return ")


def _tried(space: SearchSpace, knobs: Any) -> dict[str, list[int]]:
    from autopipe.planning.memory.machine import Machine

    return {name: list(each.choices) for name, each in space(knobs, Machine.here()).items()}


def _lines(listed: dict[str, dict[str, Any]]) -> Iterator[Any]:
    for name, space in listed.items():
        yield Text.assemble((name, "bold"), f"  {space['for']}")
        for knob, values in space.get("tries", {}).items():
            yield Padding(Text(f"{knob}: {', '.join(map(str, values))}"), (0, 0, 0, 2))
        if space.get("tries") == {}:
            yield Padding(Text("nothing", style="dim"), (0, 0, 0, 2))
