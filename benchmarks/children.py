"""A pipeline in a process of its own: the parent makes the data once, and each child reads it from a folder."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cases._base import Case

__all__ = ["load_data", "run_child", "save_data"]

_ROOT = Path(__file__).parents[1]
_DATA = "data.pickle"
# Every package that is installed comes compiled; a checkout is, once a process may keep what it has compiled.
_AS_INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}


def save_data(case: Case, folder: Path, **size: int) -> None:
    """Make the data of a case in a folder, with what its pipelines are given; ``size`` is for its ``make_data``."""
    files = folder / "files"
    files.mkdir()
    make_data: Callable[..., Any] = case.make_data
    (folder / _DATA).write_bytes(pickle.dumps(make_data(files, **size)))


def load_data(folder: Path) -> Any:
    """Return what the pipelines of the case are given whose data is in a folder."""
    return pickle.loads((folder / _DATA).read_bytes())


def run_child(module: str, environment: Mapping[str, str] | None = None, **options: object) -> dict[str, Any]:
    """Run ``python -m`` a module with some options; return the JSON object in the last line it prints.

    Args:
        module: its name.
        environment: variables beside those of this process.
        options: by their names, with underscores.

    Raises:
        RuntimeError: if it fails; what it printed is in the message.
    """
    command = [sys.executable, "-m", module]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    variables = {**os.environ, **_AS_INSTALLED, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})}
    done = subprocess.run(command, cwd=_ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
