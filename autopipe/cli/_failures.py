"""How a command ends when something is wrong: what is printed, and the exit code."""

from __future__ import annotations

import functools
import importlib.util
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from autopipe.cli.targets import UserCodeError
from autopipe.errors import ArgumentError, AutopipeError, PlanError

if TYPE_CHECKING:
    from autopipe.planning.plans.plan import Plan

__all__ = ["REFUSED", "USERS_OWN", "ends_with_exit_code", "print_error", "running_users_pipeline", "save_plan"]

REFUSED = 1
USERS_OWN = 3
_LIBRARIES = ("networkx", "numpy", "optuna", "psutil", "rich", "typer")
# If this variable is set, tracebacks are not shortened.
_WHOLE = "AUTOPIPE_TRACEBACK"


def ends_with_exit_code(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command print what it raises as a message, and end with the exit code that stands for it."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except AutopipeError as error:
            print_error(str(error))
            raise typer.Exit(REFUSED) from None
        except UserCodeError as error:
            _print_user_error(error)
            raise typer.Exit(USERS_OWN) from None

    return guarded


@contextmanager
def running_users_pipeline(origin: str) -> Iterator[None]:
    """Tell errors of the user's pipeline or model, which TensorFlow or Keras raise, from those of autopipe.

    What they print goes to standard error: standard output is for the command.

    Raises:
        UserCodeError: for the user's errors.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except AutopipeError:
        raise
    except Exception as error:
        if _is_users([frame.filename for frame in traceback.extract_tb(error.__traceback__)]):
            raise UserCodeError(origin) from error
        raise


def save_plan(plan: Plan, file: Path) -> None:
    """Write a plan to a file; if that fails after all, print it, since it took long to find.

    Raises:
        PlanError: if it cannot be written, as on a full disk, or where the folder is gone by now.
    """
    try:
        plan.save(file)
    except (ArgumentError, OSError) as error:
        typer.echo(plan.to_json())
        raise PlanError(
            f"A plan must be written to a file, but {file} could not be ({error}). It is printed instead, to be put "
            f"into another file."
        ) from error


def _print_user_error(error: UserCodeError) -> None:
    cause = error.__cause__
    assert cause is not None
    account = traceback.TracebackException.from_exception(cause)
    if _WHOLE not in os.environ:
        _keep_users_frames(account)
    print("".join(account.format()), end="", file=sys.stderr)
    print_error(
        f"The above was raised by your own code, in {error.origin} or what it calls; autopipe stopped there. With "
        f"{_WHOLE}=1 the libraries' calls are shown as well."
    )


def print_error(message: str) -> None:
    """Print a message to standard error."""
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def _keep_users_frames(account: traceback.TracebackException) -> None:
    folders = ("<frozen ", *_folders("autopipe", "importlib", "keras", "tensorflow"))
    each: traceback.TracebackException | None = account
    while each is not None:
        frames = [
            frame
            for frame in each.stack
            if not frame.filename.startswith(folders) and "__autograph_generated_file" not in frame.filename
        ]
        each.stack = traceback.StackSummary.from_list(frames)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _is_users(files: list[str]) -> bool:
    """Return whether an error that came through the code of these files, the innermost last, is the user's."""
    if not all(map(_is_installed, files)) or files[-1].startswith(_folders("keras", "tensorflow")):
        return True
    # What a user calls may be installed too. autopipe calls a few libraries, and through TensorFlow and Keras the user.
    own = _folders("autopipe")
    last = max((place for place, file in enumerate(files) if file.startswith(own)), default=-1)
    between = _folders("keras", "tensorflow")
    called = (file for file in files[last + 1 :] if not _is_pythons(file) and not file.startswith(between))
    entered = next(called, None)
    return entered is not None and not entered.startswith(_folders(*_LIBRARIES))


def _is_installed(file: str) -> bool:
    """Return whether a file is autopipe's, a library's or Python's, and not the user's."""
    return _is_pythons(file) or file.startswith((*_folders("autopipe"), *_site_packages()))


def _is_pythons(file: str) -> bool:
    python = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    # What Cython has compiled is named as it was where it was compiled.
    compiled = file.startswith("<") or file.endswith(".pyx")
    return compiled or (file.startswith(python) and not file.startswith(_site_packages()))


def _site_packages() -> tuple[str, ...]:
    return site.getusersitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")


def _folders(*packages: str) -> tuple[str, ...]:
    specs = [importlib.util.find_spec(package) for package in packages]
    return tuple(f"{Path(spec.origin).parent}{os.sep}" for spec in specs if spec and spec.origin)
