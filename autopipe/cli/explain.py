"""The command named as this file."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from autopipe.cli._failures import running_users_pipeline
from autopipe.cli._options import Arguments, AsJson, KeepsOption, Promise, Target, parse_arguments
from autopipe.cli.targets import load_dataset
from autopipe.quiet import load_tensorflow

__all__ = ["explain"]


def explain(
    target: Target, arg: Arguments = None, keeps: KeepsOption = Promise.TRAINING, as_json: AsJson = False
) -> None:
    """Show what autopipe would do to a pipeline and why, and what it refuses to do and why. Changes nothing."""
    arguments = parse_arguments(arg)
    load_tensorflow()
    import autopipe

    dataset = load_dataset(target, arguments)
    with running_users_pipeline(target):
        account = autopipe.explain(dataset, keeps=keeps.value)
    if as_json:
        typer.echo(json.dumps(account.to_dict(), indent=2))
    else:
        Console().print(account)
