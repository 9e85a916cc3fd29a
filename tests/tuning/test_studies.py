"""Studies survive their processes: shared by several, resumed after kill -9, each trial counted once."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import optuna
import psutil
import pytest
import study_worker as worker
from optuna.trial import TrialState
from programs import begin_program, run_program

from autopipe.errors import ArgumentError
from autopipe.tuning import studies
from autopipe.tuning.studies import complete, fail_abandoned, open_study, shown, signed

WORKER = Path(worker.__file__)
TRIALS = 16


def start(storage, count=1, seconds=0.005):
    """Start so many processes at once, and return them when all are ready."""
    command = [sys.executable, WORKER, storage, str(TRIALS), str(seconds)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * count
    return processes


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def result(process):
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def opened():
    """Close the connections of every study at the end, as the end of a process does."""
    studies_opened = []

    def noting(*arguments, **named):
        studies_opened.append(open_study(*arguments, **named))
        return studies_opened[-1]

    yield noting
    for study in studies_opened:
        backend = getattr(study._storage, "_backend", None)
        if backend is not None and hasattr(backend, "engine"):
            study._storage.remove_session()
            backend.engine.dispose()


@pytest.fixture(params=["sqlite:///{}/study.db", "journal:{}/study.log"])
def storage(request, tmp_path):
    return request.param.format(tmp_path)


@pytest.mark.one_in(2)
@pytest.mark.timeout(300)
def test_a_study_is_resumed_after_kill_9_at_random_moments(storage, opened, monkeypatch):
    worker.give_up_locks_of_the_dead_soon(monkeypatch.setattr)
    kills = 2
    moments = random.Random(1)
    for _ in range(kills):
        (process,) = start(storage)
        time.sleep(moments.uniform(0.0, 0.25))
        kill(process)
    last = result(*start(storage))
    # A trial may have been begun, and its process killed before it could sign.
    monkeypatch.setattr(studies, "_UNSIGNED_SECONDS", 0.0)
    study = opened("shared", storage)
    fail_abandoned(study)
    found = [trial.state for trial in study.trials]
    assert last["complete"] == found.count(TrialState.COMPLETE) >= TRIALS
    # Each kill costs the running trial, and no more.
    assert found.count(TrialState.FAIL) <= kills
    assert TrialState.RUNNING not in found
    numbers = [trial.number for trial in study.trials]
    assert numbers == sorted(set(numbers))


@pytest.fixture
def postgresql(tmp_path):
    """Start a server of its own, which only listens on a socket in a folder of its own."""
    if not shutil.which("initdb"):
        pytest.skip("PostgreSQL is not installed; its commands initdb and postgres are needed")
    pytest.importorskip("psycopg", reason="the driver is not installed: pip install 'psycopg[binary]'")
    data = tmp_path / "data"
    # The server does not run as root; where the tests do, it runs as nobody.
    as_user = {"user": "nobody"} if os.geteuid() == 0 else {}
    if as_user:
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(folder.stat().st_mode | 0o755)
        data.mkdir(mode=0o700)
        shutil.chown(data, "nobody")
        shutil.chown(tmp_path, "nobody")
    make = ["initdb", "-D", data, "-A", "trust", "-U", "tester"]
    subprocess.run(make, check=True, capture_output=True, **as_user)
    server = subprocess.Popen(
        ["postgres", "-D", data, "-k", tmp_path, "-h", "", "-F"], stderr=subprocess.DEVNULL, **as_user
    )
    url = f"postgresql+psycopg://tester@/postgres?host={tmp_path}"
    for _ in range(100):
        time.sleep(0.1)
        if subprocess.run(["pg_isready", "-h", tmp_path, "-q"], check=False).returncode == 0:
            break
    yield url
    server.send_signal(signal.SIGINT)
    server.wait(20)


@pytest.mark.timeout(200)
def test_three_processes_share_a_server_and_one_that_is_killed_costs_one_trial(postgresql, opened, monkeypatch):
    study = opened("shared", postgresql)
    workers = start(postgresql, 3, seconds=0.03)
    time.sleep(0.2)
    kill(workers[0])
    monkeypatch.setattr(studies, "_UNSIGNED_SECONDS", 0.0)
    found = [result(process) for process in workers[1:]]
    fail_abandoned(study)
    counted = [trial.state for trial in study.trials]
    assert counted.count(TrialState.FAIL) <= 1
    assert TrialState.RUNNING not in counted
    # Each process may have had a trial under way when the last of them was told.
    assert TRIALS <= complete(study) <= TRIALS + len(workers)
    assert len({trial.number for trial in study.trials}) == len(study.trials)
    for each in found:
        assert each["after"] == pytest.approx(study.best_value)
        assert worker.speed(worker.Choice("", each["knobs"])) == pytest.approx(study.best_value)


def begun(study):
    """Begin a trial that is signed once."""
    trial = study.ask()
    with signed(trial):
        return trial


def sign_as(trial, numbering=None, started=None):
    """Let another process have signed a trial: with other numbers of processes, or with the same number earlier."""
    ours, number, since = trial.user_attrs["autopipe:process"].rsplit(":", 2)
    trial.set_user_attr("autopipe:process", f"{numbering or ours}:{number}:{started or since}")


class TestAbandoned:
    def test_a_trial_of_a_living_process_is_left_alone(self):
        study = open_study()
        begun(study)
        assert fail_abandoned(study) == 0

    def test_a_process_that_has_the_number_of_a_dead_one_is_another(self):
        study = open_study()
        sign_as(begun(study), started="12")
        assert fail_abandoned(study) == 1
        assert study.trials[0].state is TrialState.FAIL

    def test_a_living_process_is_known_after_the_clock_was_set(self, monkeypatch):
        study = open_study()
        begun(study)
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: 12.5)
        assert fail_abandoned(study) == 0

    def test_the_start_of_a_process_is_found_whatever_its_name(self, tmp_path):
        odd = tmp_path / "a) R 1 (\N{SNOWMAN}"
        odd.symlink_to(shutil.which("sleep"))
        process = subprocess.Popen([odd, "60"])
        try:
            assert int(studies._started(os.getpid())) <= int(studies._started(process.pid))
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert studies._started(process.pid) == ""
        finally:
            process.kill()
            process.wait()
        assert studies._started(process.pid) == ""

    @pytest.mark.parametrize("hidden", [PermissionError, FileNotFoundError], ids=["hidepid=1", "hidepid=2"])
    def test_a_process_that_the_system_hides_is_known_by_its_signs(self, hidden, monkeypatch):
        study = open_study()
        trial = begun(study)

        def hide(*_):
            raise hidden

        def refuse(*_):
            raise PermissionError

        monkeypatch.setattr(studies.Path, "read_bytes", hide)
        monkeypatch.setattr(studies.os, "kill", refuse)
        monkeypatch.setattr(studies, "_LOOKED_AT_SECONDS", 0.0)
        assert fail_abandoned(study) == 0
        trial.set_user_attr("autopipe:seen", time.time() - 10_000)
        assert fail_abandoned(study) == 1

    @pytest.mark.parametrize("part", [0, 1, 2], ids=["host", "boot", "namespace"])
    def test_a_process_whose_number_says_nothing_here_is_waited_for_and_not_for_ever(self, part, monkeypatch):
        study = open_study()
        trial = begun(study)
        numbering = trial.user_attrs["autopipe:process"].rsplit(":", 2)[0].split("/")
        numbering[part] = "another"
        sign_as(trial, "/".join(numbering), started="12")
        assert fail_abandoned(study) == 0
        trial.set_user_attr("autopipe:seen", time.time() - 10_000)
        # The clock of the other machine may be another, or both have been asleep.
        assert fail_abandoned(study) == 0
        monkeypatch.setattr(studies, "_LOOKED_AT_SECONDS", 0.0)
        assert fail_abandoned(study) == 1

    def test_a_process_that_gives_signs_is_alive_whatever_its_clock_says(self, monkeypatch):
        monkeypatch.setattr(studies, "_LOOKED_AT_SECONDS", 0.05)
        study = open_study()
        trial = begun(study)
        sign_as(trial, "elsewhere", started="12")
        for beat in range(5):
            trial.set_user_attr("autopipe:seen", beat)
            assert fail_abandoned(study) == 0
            time.sleep(0.06)
        assert fail_abandoned(study) == 1

    def test_a_trial_that_was_never_signed_is_given_the_time_for_it(self, monkeypatch):
        study = open_study()
        study.ask()
        assert fail_abandoned(study) == 0
        monkeypatch.setattr(studies, "_UNSIGNED_SECONDS", 0.0)
        assert fail_abandoned(study) == 1

    @pytest.mark.parametrize("hours", [-2, 2])
    def test_a_trial_that_was_begun_in_another_time_zone_is_given_that_time_too(self, hours, monkeypatch):
        study = open_study()
        trial = optuna.trial.create_trial(state=TrialState.RUNNING)
        trial.datetime_start += timedelta(hours=hours)
        study.add_trial(trial)
        assert fail_abandoned(study) == 0
        monkeypatch.setattr(studies, "_UNSIGNED_SECONDS", 0.0)
        assert fail_abandoned(study) == 1


def test_a_long_trial_goes_on_giving_signs_of_life(storage, opened, monkeypatch):
    monkeypatch.setattr(studies, "_SIGN_SECONDS", 0.01)
    study = opened("shared", storage)
    trial = study.ask()
    with signed(trial):
        sign_as(trial, "elsewhere")
        trial.set_user_attr("autopipe:seen", 0.0)
        for _ in range(1000):
            time.sleep(0.01)
            if trial.user_attrs["autopipe:seen"]:
                break
        assert fail_abandoned(study) == 0
    ended = trial.user_attrs["autopipe:seen"]
    time.sleep(0.1)
    assert trial.user_attrs["autopipe:seen"] == ended


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"storage": "nowhere://x"}, "A storage must be one that Optuna can open, but with 'nowhere://x' it says"),
        ({"storage": "sqlite:////no/such/folder/study.db"}, "unable to open database file"),
        ({"seed": -1}, "seed must be a whole number >= 0, but got -1"),
        ({"seed": 2**32}, "seed must be a whole number <= 4294967295, but got 4294967296"),
        ({"sampler": "best"}, "sampler must be one of tpe, random, but got 'best'"),
        ({"pruner": "best"}, "pruner must be one of median, none, but got 'best'"),
    ],
)
def test_a_wrong_argument_is_named(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        open_study("any", **arguments)


def test_a_stored_study_that_would_search_for_the_worst_is_refused(storage, opened):
    study = opened("shared", storage)
    optuna.delete_study(study_name="shared", storage=study._storage)
    optuna.create_study(study_name="shared", storage=study._storage, direction="minimize")
    with pytest.raises(ArgumentError, match=r"must maximize one value, but 'shared' has minimize.* another name"):
        opened("shared", storage)


def test_who_goes_on_with_a_study_draws_no_more_what_was_drawn_at_its_beginning(tmp_path, opened):
    storage = f"sqlite:///{tmp_path}/study.db"
    drawn = []
    for _process in range(2):
        study = opened("seeded", storage, sampler="random", seed=3)
        trial = study.ask()
        drawn.append(trial.suggest_float("x", 0, 1))
        study.tell(trial, 0.0)
    assert drawn[0] != drawn[1]


def test_all_who_open_a_new_database_at_the_same_moment_get_the_study(tmp_path):
    code = f"""
import os, pathlib, time
import optuna
from autopipe.tuning.studies import open_study

os.chdir({str(tmp_path)!r})
pathlib.Path(f"{{os.getpid()}}.ready").touch()
while len(list(pathlib.Path().glob("*.ready"))) < 4:
    time.sleep(0.001)
open_study("shared", "sqlite:///new.db")
"""
    started = [begin_program(code) for _ in range(4)]
    errors = [answer.recv()[1] for _, answer in started]
    for process, _ in started:
        process.join()
    assert errors == [""] * 4


def test_loading_optuna_holds_nothing_of_who_asked_for_it():
    """A package that is missing makes Optuna keep an error; the model of a ``fit`` must not hang on it."""
    code = """
import gc, sys, weakref
from autopipe.tuning.studies import load_optuna

class Model: pass

def fit():
    model = Model()
    load_optuna()
    assert "optuna" in sys.modules
    return weakref.ref(model)

sys.modules["redis"] = None
model = fit()
gc.collect()
print(model() is None)
"""
    assert run_program(code).split() == ["True"]


def test_a_password_is_not_told(tmp_path):
    with pytest.raises(ArgumentError) as refused:
        open_study(storage=f"sqlite://anna:secret@/{tmp_path}/none/study.db")
    assert "anna:***@" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["password", "PassWD", "sslpassword"])
def test_a_password_that_is_an_option_of_a_url_is_not_told(name):
    assert shown(f"postgresql://host/db?user=anna&{name}=secret&port=1") == (
        f"postgresql://host/db?user=anna&{name}=***&port=1"
    )
