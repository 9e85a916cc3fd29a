"""What a study is told of what runs already, once, and what it says of that when it goes on."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution

from autopipe.tuning.search.proposals import Proposals
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window

SPACE = {"calls": CategoricalDistribution((1, 2, 3, 4))}


@pytest.fixture
def study():
    return optuna.create_study(direction="maximize")


def told(study):
    return [(trial.params["calls"], trial.value) for trial in study.trials]


def test_a_study_is_told_once_what_the_same_values_score(study):
    assert Proposals(study, SPACE, seed=1).begin({"calls": 3, "other": 7}, 1.0, []) == 1.0
    assert Proposals(study, SPACE, seed=1).begin({"calls": 3}, 2.5, []) == 1.0
    assert told(study) == [(3, 1.0)]
    assert Proposals(study, SPACE, seed=1).begin({"calls": 4}, 2.5, []) == 2.5
    assert told(study) == [(3, 1.0), (4, 2.5)]


def test_what_came_of_the_same_values_as_a_challenger_is_what_they_score(study):
    proposals = Proposals(study, SPACE, seed=1)
    proposals.begin({"calls": 1}, 1.0, [{"calls": 2}])
    assert proposals.ask() == {"calls": 2}
    proposals.tell(1.75)
    assert Proposals(study, SPACE, seed=1).begin({"calls": 2}, 1.0, []) == 1.75
    assert told(study) == [(1, 1.0), (2, 1.75)]


@pytest.mark.parametrize("value", [None, 0.0, -1.0])
def test_values_of_which_nothing_was_measured_are_told_anew(study, value):
    asked = study.ask(SPACE)
    state = optuna.trial.TrialState.FAIL if value is None else None
    study.tell(asked, value, state=state)
    assert Proposals(study, SPACE, seed=1).begin(asked.params, 1.5, []) == 1.5
    assert told(study)[1:] == [(asked.params["calls"], 1.5)]


def test_values_that_are_not_in_the_space_are_not_told(study):
    assert Proposals(study, SPACE, seed=1).begin({"calls": 9}, 1.5, []) == 1.5
    assert not study.trials


def test_a_search_that_goes_on_with_a_study_compares_with_what_that_was_told(study):
    study.add_trial(optuna.trial.create_trial(params={"calls": 1}, distributions=SPACE, value=2.0))
    search = Search({"calls": 1}, SPACE, trials=1, seed=1, study=study, objective="rate")
    while not search.finished:
        search.feed(Window(steps=100, seconds=1.0 if search.challenging else 2.0, waiting_seconds=0.5))
    scores = [trial.value for trial in study.trials if trial.state is optuna.trial.TrialState.COMPLETE]
    assert scores == [2.0, pytest.approx(4.0)]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    "sampler",
    [
        lambda: optuna.samplers.BruteForceSampler(seed=1),
        lambda: optuna.samplers.GridSampler({"calls": [1, 2, 3, 4]}, seed=1),
    ],
    ids=["brute force", "grid"],
)
def test_a_sampler_that_has_proposed_all_there_is_ends_a_search_without_a_word(sampler):
    study = optuna.create_study(direction="maximize", sampler=sampler())
    search = Search({"calls": 1}, SPACE, trials=30, seed=1, study=study, objective="rate")
    while not search.finished:
        search.feed(Window(steps=100 * search.running["calls"], seconds=1.0, waiting_seconds=0.5))
    assert search.incumbent == {"calls": 4}
    assert {trial.knobs["calls"] for trial in search.trials} >= {2, 3, 4}
    assert not [trial for trial in study.trials if trial.state is optuna.trial.TrialState.RUNNING]


class Failing(optuna.samplers.RandomSampler):
    def infer_relative_search_space(self, study, trial):
        raise KeyError("calls")


def test_a_sampler_that_fails_is_not_told_as_a_storage_that_cannot_be_reached():
    proposals = Proposals(optuna.create_study(direction="maximize", sampler=Failing()), SPACE, seed=1)
    proposals.begin({"calls": 1}, 1.0, [])
    with pytest.warns(
        UserWarning, match=r"^A study must propose trials, .* but it raised KeyError: 'calls'\. .* best"
    ) as told:
        assert proposals.ask() is None
    assert "reach" not in str(told[0].message)
