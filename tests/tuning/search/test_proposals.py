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
