"""The ``autopipe`` command."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from autopipe.cli._failures import REFUSED, ends_with_exit_code, print_error
from autopipe.cli._output import output_apart
from autopipe.cli.check import check
from autopipe.cli.demo import demo
from autopipe.cli.diff import diff
from autopipe.cli.doctor import doctor
from autopipe.cli.explain import explain
from autopipe.cli.rules import rules
from autopipe.cli.source import source
from autopipe.cli.spaces import spaces
from autopipe.cli.tune import tune
from autopipe.environment import release
from autopipe.errors import AutopipeError

__all__ = ["app", "run"]

_EXIT_CODES = (
    "[bold]Exit codes[/]  0: {}.  1: {}autopipe refused, and said why.  2: the command line is wrong.  "
    "3: your own code raised, and its traceback is shown."
)
# What exit codes 0 and 1 mean for a command that checks something.
_ANSWERS = {
    "check": ("it holds", "it became slower, or is another pipeline, or "),
    "diff": ("equal", "they differ, or "),
    "explain": ("done", "a finding that --fail-on names stands out, or "),
    "source": ("done", "a function that autopipe made is left out, or "),
}
_DONE = ("done", "")

app = typer.Typer(
    name="autopipe",
    help="Make the input pipeline of Keras training stop being the bottleneck.",
    epilog=_EXIT_CODES.format(*_DONE),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command, _example in (
    (explain, "autopipe explain train.py:make_dataset --arg batch_size=32"),
    (tune, "autopipe tune train.py:make_dataset --model train.py:make_model -o plan.json"),
    (check, "autopipe check train.py:make_dataset --plan plan.json --margin 0.1"),
    (diff, "autopipe diff plan.json train.py:make_dataset"),
    (source, "autopipe source train.py:make_dataset --plan plan.json"),
    (spaces, "autopipe spaces train.py:make_dataset"),
    (rules, "autopipe rules --verbose"),
    (doctor, "autopipe doctor"),
    (demo, "autopipe demo --images flower_photos"),
):
    _codes = _EXIT_CODES.format(*_ANSWERS.get(_command.__name__, _DONE))
    _epilog = f"[bold]Example[/]  {_example}\n\n{_codes}"
    app.command(_command.__name__, epilog=_epilog)(ends_with_exit_code(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autopipe {release() or '(not installed)'}")
        raise typer.Exit


@app.callback()
def _autopipe(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; the console script. What a terminal has no sign for is printed as a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with output_apart():
        try:
            app()
        except AutopipeError as error:
            print_error(str(error))
            sys.exit(REFUSED)
