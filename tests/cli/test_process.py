"""What only a process of its own shows: what is imported, what is printed, and the exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopipe.cli.main import app

RUN = "from autopipe.cli.main import run; run()"


def python(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_help_of_every_command_is_quick_and_has_an_example() -> None:
    names = [command.name for command in app.registered_commands]
    done = python(
        "-c",
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from autopipe.cli.main import app\n"
        f"for name in {names!r}:\n"
        "    print(CliRunner().invoke(app, [name, '--help']).output)\n"
        "print(sorted({'tensorflow', 'keras', 'optuna', 'numpy'} & set(sys.modules)))\n",
    )
    assert done.stdout.count("Exit codes") == len(names) == 5
    for name in names:
        assert f"Example  autopipe {name}" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_script_ends_with_the_exit_code_and_prints_nothing_else(project: Path) -> None:
    done = python("-c", RUN, "explain", "train.py:forgets", folder=project)
    assert done.returncode == 1
    assert done.stderr.startswith("error: train.py:forgets must return a tf.data.Dataset")
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_what_a_tensorflow_that_cannot_be_loaded_says_is_shown(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'a library is missing\\n')\nraise ImportError('no')\n"
    )
    done = python("-c", "from autopipe.quiet import load_tensorflow; load_tensorflow()", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("a library is missing")
    assert done.stderr.endswith("ImportError: no\n")


@pytest.mark.parametrize(("asked", "shown"), [("3", ""), ("0", "a notice\n")])
def test_notices_are_shown_to_those_who_ask(tmp_path: Path, asked: str, shown: str) -> None:
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'a notice\\n')\n")
    done = python(
        "-c",
        f"import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '{asked}'\n"
        "from autopipe.quiet import load_tensorflow; load_tensorflow()",
        folder=tmp_path,
    )
    assert done.returncode == 0
    assert done.stderr == shown
