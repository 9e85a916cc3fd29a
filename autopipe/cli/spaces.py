from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from autopipe.arguments import MEASURING_SECONDS
from autopipe.cli._optimizing import MeasuringOption, optimized_target
from autopipe.cli._options import Arguments, AsJson, KeepsOption, PlanOption, Promise, parse_arguments
from autopipe.cli._output import draw
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.search_spaces import SearchSpace

__all__ = ["spaces"]


def spaces(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A pipeline, [bold]file.py:function[/], to show what each space would search for it.",
            show_default=False,
        ),
    ] = None,
    *,
    arg: Arguments = None,
    plan: PlanOption = None,
    keeps: KeepsOption = Promise.TRAINING,
    seconds: MeasuringOption = MEASURING_SECONDS,
    as_json: AsJson = False,
) -> None:
    """List the search spaces of autopipe tune and what each is for; with a pipeline, also what each would try there."""
    if target is None and (arg or plan or keeps is not Promise.TRAINING or seconds != MEASURING_SECONDS):
        raise typer.BadParameter(
            "--arg, --plan, --keeps and --seconds are of a pipeline, but none was named. Give file.py:function first."
        )
    arguments = parse_arguments(arg)
    load_tensorflow()
    from autopipe.pipeline.knobs import read_knobs
    from autopipe.search_spaces import SPACES

    listed: dict[str, dict[str, Any]] = {name: {"for": _first_sentence(space)} for name, space in SPACES.items()}
    if target is not None:
        knobs = read_knobs(optimized_target(target, arguments, plan, keeps, seconds).tree)
        for name, space in SPACES.items():
            listed[name]["tries"] = _tried(space, knobs)
    if as_json:
        typer.echo(json.dumps(listed, indent=2))
        return
    for line in _lines(listed):
        draw(line, soft_wrap=True)


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
