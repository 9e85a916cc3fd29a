"""The ``autopipe`` command."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from autopipe.cli._failures import ends_with_exit_code
from autopipe.cli.demo import demo
from autopipe.cli.doctor import doctor
from autopipe.cli.explain import explain
from autopipe.cli.rules import rules
from autopipe.cli.tune import tune

__all__ = ["app", "run"]

_EXIT_CODES = (
    "[bold]Exit codes[/]  0: done.  1: autopipe refused, and said why.  2: the command line is wrong.  "
    "3: your own code raised."
)

app = typer.Typer(
    name="autopipe",
    help="Make the input pipeline of Keras training stop being the bottleneck.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command, _example in (
    (explain, "autopipe explain train.py:make_dataset --arg batch_size=32"),
    (tune, "autopipe tune train.py:make_dataset --model train.py:make_model -o plan.json"),
    (rules, "autopipe rules --verbose"),
    (doctor, "autopipe doctor"),
    (demo, "autopipe demo --images flower_photos"),
):
    _epilog = f"[bold]Example[/]  {_example}\n\n{_EXIT_CODES}"
    app.command(_command.__name__, epilog=_epilog)(ends_with_exit_code(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autopipe {version('keras-autopipe')}")
        raise typer.Exit


@app.callback()
def _autopipe(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; the console script."""
    app()
