"""What only a process of its own shows: what is imported, what is printed, and the exit code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import run_program
from typer.testing import CliRunner

from autopipe import Plan
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
    assert done.stdout.count("Exit codes") == len(names) == 9
    for name in names:
        assert f"Example  autopipe {name}" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_script_ends_with_the_exit_code_and_prints_nothing_else(project: Path) -> None:
    done = python("-c", RUN, "explain", "train.py:forgets", folder=project)
    assert done.returncode == 1
    assert done.stderr.startswith("error: train.py:forgets must return a tf.data.Dataset")
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_the_package_is_run_as_the_script() -> None:
    assert python("-m", "autopipe", "--version").stdout == python("-c", RUN, "--version").stdout != ""


def test_a_report_is_printed_whole_and_no_line_of_it_ends_in_blanks(project: Path) -> None:
    done = python("-c", RUN, "explain", "train.py:make_dataset", "--seconds", "0.4", folder=project)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "batches/s of 4" in lines[0]
    assert "Changed, keeping training" in lines
    assert lines == [line.rstrip() for line in lines]


def test_a_target_may_start_processes_that_import_its_file_or_print(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import concurrent.futures, multiprocessing, subprocess\n"
        "def double(n):\n"
        "    return n * 2\n"
        "def make():\n"
        "    import tensorflow as tf\n"
        "    subprocess.run(['echo', 'downloading'])\n"
        "    spawning = multiprocessing.get_context('spawn')\n"
        "    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawning) as processes:\n"
        "        return tf.data.Dataset.from_tensor_slices(list(processes.map(double, [1, 2])))\n"
    )
    done = python("-c", RUN, "source", "own.py:make", "--seconds", "0", folder=tmp_path)
    assert done.returncode == 0
    # What they print is not the output of the command.
    assert done.stdout.startswith('"""own.py:make')
    assert done.stderr == "downloading\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", [("spaces",), ("rules",), ("--version",), ("tune", "--help")])
def test_an_output_that_cannot_be_written_is_told_in_a_sentence(command: tuple[str, ...]) -> None:
    code = f"import sys; sys.argv[1:] = {command!r}; {RUN}"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: What a command prints must be written, but the output could")
    assert "Traceback" not in done.stderr


def test_an_output_of_few_signs_is_no_error(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    code = f"""
import io, os, sys
os.dup2(os.open({str(printed)!r}, os.O_WRONLY | os.O_CREAT), 1)
sys.stdout = io.TextIOWrapper(io.BytesIO(), "ascii")
sys.argv[1:] = ["rules"]
try:
    {RUN}
except SystemExit as ended:
    assert not ended.code
"""
    run_program(code)
    assert "cache_after_map" in printed.read_text("ascii")


def test_a_search_that_is_interrupted_says_what_becomes_of_its_trials(project: Path) -> None:
    # Whoever runs the tests in the background may have had it ignored.
    heeding = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {RUN}"
    given = ["tune", "train.py:make_dataset", "-o", "plan.json", "--numbers-only", "--trials=999"]
    given.append("--storage=sqlite:///s.db")
    with subprocess.Popen(
        [sys.executable, "-uc", heeding, *given],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as search:
        assert search.stdout is not None
        assert search.stderr is not None
        assert search.stdout.readline().startswith("trial 1/999")
        search.send_signal(signal.SIGINT)
        said = search.stderr.read()
        assert search.wait() != 0
    words = "Its trials are in sqlite:///s.db: the same command continues from there."
    assert f"The search was interrupted, and no plan is written. {words}" in said
    assert "Traceback" not in said
    assert not (project / "plan.json").exists()


def test_two_plans_are_compared_without_tensorflow(tmp_path: Path) -> None:
    for name, rules in (("a", ("prefetch_at_end",)), ("b", ())):
        Plan("ab12", rules=rules).save(tmp_path / f"{name}.json")
    (tmp_path / "tensorflow.py").write_text("raise ImportError('not needed')")
    done = python("-c", RUN, "diff", "a.json", "b.json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "- prefetch_at_end" in done.stdout
    assert python("-c", RUN, "diff", "a.json", "a.json", folder=tmp_path).returncode == 0


def test_the_code_that_source_prints_runs_where_autopipe_is_not_there(project: Path) -> None:
    printed = CliRunner().invoke(app, ["source", "train.py:make_dataset", "--seconds", "0"])
    assert (printed.exit_code, printed.stderr) == (0, "")
    (project / "alone.py").write_text(f"{printed.stdout}\n\nprint([len(y) for _, y in make_dataset()])\n")
    without = "import runpy, sys; sys.modules['autopipe'] = None; sys.path.insert(0, ''); runpy.run_path('alone.py')"
    assert run_program(without).strip() == str([4] * 16)


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


@pytest.mark.parametrize("level", ["3", "0"])
def test_nobody_looks_for_garbage_in_what_is_imported(tmp_path: Path, level: str) -> None:
    (tmp_path / "tensorflow.py").write_text("import gc\nprint(gc.isenabled())\nmade = [[] for _ in range(100_000)]\n")
    done = python(
        "-c",
        f"import os; os.environ['TF_CPP_MIN_LOG_LEVEL'] = '{level}'\n"
        "from autopipe.quiet import load_tensorflow; load_tensorflow()\n"
        "import gc; print(gc.isenabled(), len(gc.get_objects()) < 100_000)",
        folder=tmp_path,
    )
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.mark.skipif(os.name == "nt", reason="it takes a shell that closes an output")
@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_a_closed_error_output_is_no_error(project: Path, closed: str) -> None:
    (project / "notices.py").write_text(
        "import os, subprocess, train\n"
        "def make():\n"
        "    os.write(2, b'a notice of C code')\n"
        "    subprocess.run('echo a notice; echo another >&2', shell=True, check=True)\n"
        "    return train.frozen()\n"
    )
    command = f'"{sys.executable}" -c "{RUN}" explain notices.py:make --seconds 0 --json {closed}'
    done = subprocess.run(command, shell=True, cwd=project, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert "AP102" in [each["code"] for each in json.loads(done.stdout)["findings"]]
