"""The options that several commands share."""

from __future__ import annotations

import ast
import enum
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autopipe.cli.targets import load_model

if TYPE_CHECKING:
    from autopipe.planning.costs.consumer import Consumer

__all__ = [
    "Arguments",
    "AsJson",
    "KeepsOption",
    "ModelOption",
    "PlanOption",
    "Promise",
    "Pruner",
    "Sampler",
    "StepOption",
    "Target",
    "consumer_of",
    "finite",
    "parse_arguments",
    "refuse_both",
]


def finite(value: float | None) -> float | None:
    """Return a number as it is.

    Raises:
        typer.BadParameter: if it is NaN, which passes any bounds, or infinite.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, but got {value}.")
    return value


class Promise(enum.StrEnum):
    """The values of ``--keeps``; ``autopipe.rules.Keeps`` needs a slow import."""

    SEQUENCE = "sequence"
    ELEMENTS = "elements"
    TRAINING = "training"


class Sampler(enum.StrEnum):
    """The values of ``--sampler``; ``autopipe.tuning.studies.SAMPLERS`` needs a slow import."""

    TPE = "tpe"
    RANDOM = "random"


class Pruner(enum.StrEnum):
    """The values of ``--pruner``, as ``autopipe.tuning.studies.PRUNERS``."""

    MEDIAN = "median"
    NONE = "none"


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="The function that returns the dataset: [bold]file.py:function[/] or [bold]module:function[/].",
        show_default=False,
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument for the function; repeat for more. A value that is not a Python literal is text.",
        show_default=False,
    ),
]
KeepsOption = Annotated[
    Promise,
    typer.Option(
        "--keeps",
        help="What must stay: the same values in the same order; the same elements; what leaves training equivalent.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="TARGET",
        help="The function that returns the compiled model; its training step reads the data.",
        show_default=False,
    ),
]
StepOption = Annotated[
    float | None,
    typer.Option(
        "--step-ms",
        metavar="MS",
        min=0,
        max=3_600_000,
        callback=finite,
        help="Without a model: milliseconds a step takes; by default the data is read as fast as it comes.",
        show_default=False,
    ),
]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Apply a plan: its rules and numbers, and its promise where that is more than --keeps.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def refuse_both(model: str | None, step_ms: float | None) -> None:
    """Raise ``typer.BadParameter`` if there is a model and also a stand-in for it."""
    if model is not None and step_ms is not None:
        raise typer.BadParameter(
            "is the step of a stand-in for the model; give one of the two.", param_hint="--step-ms"
        )


def consumer_of(model: str | None, step_ms: float | None) -> Consumer:
    """Return the consumer of the elements: the model that a target names, or a stand-in with this time per step.

    Raises:
        TargetError: if the target returns no compiled model.
        UserCodeError: if its code raises.
    """
    from autopipe.planning.costs.consumer import ModelSteps, StandIn

    return StandIn((step_ms or 0.0) / 1000) if model is None else ModelSteps(load_model(model))


def parse_arguments(texts: list[str] | None) -> dict[str, Any]:
    """Return the arguments that ``NAME=VALUE`` texts give.

    Raises:
        typer.BadParameter: if one is not of that form.
    """
    arguments: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"must be NAME=VALUE, but got {text!r}.", param_hint="--arg")
        if name in arguments:
            raise typer.BadParameter(f"must give each argument once, but got {name} twice.", param_hint="--arg")
        try:
            arguments[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            # literal_eval raises any of these.
            arguments[name] = value
    return arguments
