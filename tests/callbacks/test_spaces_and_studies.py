"""What a user brings to a live search: a study of Optuna, and a space."""

import contextlib
import math
import sqlite3

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState
from recording import Recorder, fit_until, fit_until_a_trial_ended, identity, rows

import autopipe
from autopipe.callbacks import PipelineTuner
from autopipe.errors import ArgumentError, StorageError
from autopipe.tuning.studies import open_study

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]
EAGER = {"trials": 1, "window_seconds": 0.001, "most_loss": math.inf, "objective": "rate", "verbose": 0, "seed": 1}


@pytest.mark.parametrize("directions", [["minimize"], ["maximize", "maximize"]], ids=str)
def test_a_study_that_would_search_for_the_worst_is_refused(directions):
    study = optuna.create_study(directions=directions)
    told = rf"must maximize one value, but .* has {', '.join(directions)}\. .*create_study\(direction=\"maximize\"\)"
    with pytest.raises(ArgumentError, match=told):
        PipelineTuner(study=study)


def buffers(*sizes):
    return lambda knobs, machine: {"prefetch.buffer_size": CategoricalDistribution(sizes)}


def test_a_study_that_tried_other_choices_is_left_alone_and_the_search_goes_on_without_it():
    study = optuna.create_study(direction="maximize")
    study.ask(buffers(2, 4)(None, None))
    tuner = PipelineTuner(study=study, space=buffers(1, 8), **EAGER)
    dataset = autopipe.optimize(rows().map(identity).batch(4).prefetch(1), rules=(), seconds=0)
    told = "has tried 2 or 4 for 'prefetch.buffer_size', and here it is 1 or 8.* searches in a study of its own"
    with pytest.warns(UserWarning, match=told):
        fit_until_a_trial_ended(Recorder(), dataset, tuner)
    assert tuner.search.trials
    assert len(study.trials) == 1


def test_a_study_of_the_same_choices_is_told_of_the_trials():
    study = optuna.create_study(direction="maximize")
    study.ask(buffers(1, 8)(None, None))
    dataset = autopipe.optimize(rows().map(identity).batch(4).prefetch(1), rules=(), seconds=0)
    fit_until_a_trial_ended(Recorder(), dataset, PipelineTuner(study=study, space=buffers(1, 8), **EAGER))
    assert len(study.trials) > 1


def test_a_study_goes_on_in_the_next_training_where_a_number_began_between_those_of_the_space():
    study = optuna.create_study(direction="maximize")
    dataset = autopipe.optimize(rows().map(identity).batch(4).prefetch(3), rules=(), seconds=0)
    tried = []
    for found in (3, 4):
        dataset.retune({"prefetch.buffer_size": found})
        fit_until_a_trial_ended(Recorder(), dataset, PipelineTuner(study=study, **EAGER))
        tried.append([trial for trial in study.trials if trial.state is TrialState.COMPLETE])
    assert len(tried[1]) > len(tried[0])
    assert {trial.distributions["prefetch.buffer_size"] for trial in tried[1]} == {
        CategoricalDistribution((-1, 1, 2, 3, 4, 8, 16))
    }


class OutOfReach:
    """A study whose storage is on a machine that is gone."""

    ask = None

    @property
    def directions(self):
        raise OSError("no route to host")


def test_a_study_that_is_out_of_reach_from_the_beginning_is_refused_in_words():
    with pytest.raises(StorageError, match="must be reachable .* it says: no route to host"):
        PipelineTuner(study=OutOfReach())


@pytest.fixture
def lost_database(tmp_path):
    study = open_study("lost", f"sqlite:///{tmp_path}/study.db")

    def lose(trial=None):
        with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as made:
            made.executescript("DROP TABLE trials")

    yield study, lose
    study._storage.remove_session()
    study._storage._backend.engine.dispose()


# Whether a second trial is worth its time, a clock decides.
@pytest.mark.parametrize("lost", ["before the search", pytest.param("between trials", marks=pytest.mark.timed)])
def test_a_storage_that_is_lost_does_not_end_training(lost_database, lost):
    study, lose = lost_database
    tuner = PipelineTuner(
        study=study,
        space=buffers(1, 4, 8),
        on_trial=lose if lost == "between trials" else None,
        **{**EAGER, "trials": 9},
    )
    if lost == "before the search":
        lose()
    dataset = autopipe.optimize(rows().map(identity).batch(4).prefetch(1), rules=(), seconds=0)
    told = "must be reachable .* no such table: trials.* Meanwhile "
    with pytest.warns(UserWarning, match=told) as warned:
        fit_until(lambda: tuner.search and tuner.search.finished, Recorder(), dataset, tuner)
    assert len([each for each in warned if "must be reachable" in str(each.message)]) == 1
    assert tuner.search.trials
    assert dataset.knobs == tuner.best


def space_of(folder, *patterns):
    file = folder / "space.toml"
    file.write_text("".join(f'[[knob]]\nmatch = "{pattern}"\nvalues = [1, 8]\n' for pattern in patterns))
    return str(file)


def test_a_space_may_name_knobs_that_only_the_next_iterator_can_have(tmp_path):
    space = space_of(tmp_path, "shuffle*.buffer_size", "prefetch.buffer_size")
    dataset = autopipe.optimize(rows().shuffle(4).batch(4).prefetch(1), rules=(), seconds=0)
    tuner = PipelineTuner(space=space, **EAGER)
    fit_until_a_trial_ended(Recorder(), dataset, tuner)
    assert {trial.knobs["prefetch.buffer_size"] for trial in tuner.search.trials} == {8}
    assert {trial.knobs["shuffle.buffer_size"] for trial in tuner.search.trials} == {4}


def test_a_mistake_in_a_space_ends_training_at_its_first_step_and_not_when_a_cache_is_full(tmp_path):
    model, dataset = Recorder(), autopipe.optimize(rows().cache().batch(4), rules=(), seconds=0)
    with pytest.raises(ArgumentError, match="'map.*' in .* names none"):
        model.fit(dataset, epochs=3, verbose=0, callbacks=[PipelineTuner(space=space_of(tmp_path, "map*"), **EAGER)])
    assert len(model.seen) <= 8
