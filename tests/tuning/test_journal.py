"""Half a line, left by a process that was killed while it wrote, costs what it told and no more."""

import os
import resource

import optuna
import pytest

from autopipe.tuning.journal import journal_at


def study_in(file):
    return optuna.create_study(study_name="shared", storage=journal_at(str(file)), load_if_exists=True)


def end_with(file, text):
    with file.open("ab") as journal:
        journal.write(text)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "study.log"


@pytest.mark.parametrize("half", [b'{"op_code":6,"worker_id":"a', b"{", b'{"op_code":6}'])
def test_half_a_line_is_dropped_before_the_next_is_written(file, half):
    study = study_in(file)
    study.add_trial(optuna.create_trial(value=1.0))
    whole = file.read_bytes()
    end_with(file, half)
    study.add_trial(optuna.create_trial(value=2.0))
    assert [trial.value for trial in study_in(file).trials] == [1.0, 2.0]
    assert file.read_bytes().startswith(whole)
    assert half + b"{" not in file.read_bytes()


def test_a_process_that_was_there_before_goes_on_reading(file):
    first, second = study_in(file), study_in(file)
    first.add_trial(optuna.create_trial(value=1.0))
    end_with(file, b'{"op_code":6,"wor')
    assert [trial.value for trial in second.trials] == [1.0]
    first.add_trial(optuna.create_trial(value=2.0))
    assert [trial.value for trial in second.trials] == [1.0, 2.0]


def test_a_first_line_that_was_cut_off_is_as_none(file):
    file.write_bytes(b'{"op_code":0,"stu')
    assert study_in(file).trials == []
    assert file.read_bytes().startswith(b'{"op_code":0,"worker_id"')


def test_whole_lines_are_left_as_they_are(file):
    study_in(file).add_trial(optuna.create_trial(value=1.0))
    before = file.read_bytes()
    study_in(file).set_user_attr("name", "value")
    assert file.read_bytes().startswith(before)
    assert not list(file.parent.glob("*.lock*"))


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not a file"):
        journal_at(str(tmp_path / "pipe"))


@pytest.mark.parametrize("content", [b'{"learning_rate": 0.1}', b"x", b'{"op_codes":'])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    notes = tmp_path / "notes.json"
    notes.write_bytes(content)
    with pytest.raises(OSError, match="does not hold a journal; name a new file"):
        journal_at(str(notes))
    assert notes.read_bytes() == content


def test_the_lock_is_given_back_where_the_file_cannot_be_written(file):
    study = study_in(file)
    file.rename(file.with_suffix(".moved"))
    with pytest.raises(optuna.exceptions.StorageInternalError, match="No such file"):
        study.set_user_attr("name", "value")
    assert not list(file.parent.glob("*.lock*"))


def test_a_full_disk_is_told_as_a_storage_that_cannot_be_reached(file):
    study = study_in(file)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, hard))
    try:
        with pytest.raises(optuna.exceptions.StorageInternalError, match="File too large"):
            study.add_trial(optuna.create_trial(value=1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    study.add_trial(optuna.create_trial(value=2.0))
    assert [trial.value for trial in study_in(file).trials] == [2.0]


def test_a_journal_at_a_relative_path_is_found_from_another_folder_and_its_lock_is_a_link_to_it(tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    study = study_in("runs/study.log")
    lock = journal_at("runs/study.log")._backend._lock
    assert lock.acquire()
    # Whoever waits for a lock looks at what it links to, to see whether it was left by a process that was killed.
    assert (folder / "study.log.lock").resolve(strict=True) == folder / "study.log"
    lock.release()
    monkeypatch.chdir(elsewhere)
    study.set_user_attr("from", "elsewhere")
    assert study_in(folder / "study.log").user_attrs == {"from": "elsewhere"}
