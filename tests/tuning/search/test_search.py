"""The search against a simulated machine: it finds the best, it does not believe drift, it never keeps a loss."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window, pick_objective
from autopipe.tuning.studies import open_study

SPACE = {"calls": CategoricalDistribution((-1, 1, 2, 4, 8)), "buffer": CategoricalDistribution((1, 2, 4))}
START = {"calls": 1, "buffer": 1}


def run(search, busy_of, drift=lambda number: 1.0):
    """Feed windows until the search is over; return the knobs that ran in each."""
    history = []
    while not search.finished:
        history.append(dict(search.running))
        busy = min(busy_of(search.running) * drift(len(history)), 1.0)
        search.feed(
            Window(steps=100, seconds=100 / (busy * 50 + 1), waiting_seconds=100 / (busy * 50 + 1) * (1 - busy))
        )
        assert len(history) < 500
    return history


def more_is_better(knobs):
    return {-1: 0.3, 1: 0.2, 2: 0.4, 4: 0.6, 8: 0.9}[knobs["calls"]] * {1: 0.8, 2: 1.0, 4: 0.9}[knobs["buffer"]]


def test_reaches_the_best_of_a_small_space_when_all_of_it_is_tried():
    search = Search(START, SPACE, trials=14, seed=1)
    run(search, more_is_better)
    assert search.incumbent == {"calls": 8, "buffer": 2}
    assert search.running == search.incumbent


def test_measures_each_challenger_between_two_windows_of_the_incumbent():
    search = Search(START, SPACE, trials=5, seed=1)
    history = run(search, lambda knobs: 0.5)
    assert history[0] == START
    assert all(history[number] == START for number in range(0, len(history), 2))
    assert all(history[number] != START for number in range(1, len(history), 2))


def test_keeps_the_users_own_knobs_when_nothing_is_better():
    search = Search(START, SPACE, trials=14, seed=3)
    run(search, lambda knobs: 0.9 if knobs == START else 0.5)
    assert search.incumbent == START
    assert not any(trial.kept for trial in search.trials)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.9, 1.1))
def test_a_machine_that_drifts_steadily_changes_no_decision(seed, drift):
    search = Search(START, SPACE, trials=8, seed=seed)
    run(search, lambda knobs: 0.5, drift=lambda number: min(max(drift**number, 0.2), 1.9))
    assert search.incumbent == START


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_what_is_kept_is_never_worse_than_the_start(seed):
    start = {"calls": 4, "buffer": 2}
    search = Search(start, SPACE, trials=6, seed=seed)
    run(search, more_is_better)
    assert more_is_better(search.incumbent) >= more_is_better(start)


def test_does_not_keep_less_waiting_bought_with_fewer_steps():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((1, 2))}, trials=1, seed=0)
    search.feed(Window(100, 1.0, 0.5))
    for _ in range(2):
        search.feed(Window(80, 1.0, 0.1))
    search.feed(Window(100, 1.0, 0.5))
    (trial,) = search.trials
    assert trial.gain > 0.5
    assert not trial.kept


def of_rate(rate):
    return Window(round(rate), 1.0, 0.5)


def one_trial(first_tries=()):
    space = {"calls": CategoricalDistribution((1, 2))}
    search = Search({"calls": 1}, space, trials=1, objective="rate", first_tries=first_tries, seed=0)
    search.feed(of_rate(100))
    assert search.challenging
    return search


def test_what_a_challenger_was_handed_on_does_not_count_for_it():
    search = one_trial()
    assert search.feed(of_rate(900)) is None
    assert search.challenging
    search.feed(of_rate(90))
    search.feed(of_rate(100))
    (trial,) = search.trials
    assert trial.gain == pytest.approx(-0.1)
    assert not trial.kept


def test_what_the_incumbent_was_handed_on_does_not_count_for_it():
    search = one_trial()
    for rate in (500, 500):
        search.feed(of_rate(rate))
    for rate in (400, 101):
        assert not search.trials
        search.feed(of_rate(rate))
    (trial,) = search.trials
    assert trial.gain == pytest.approx(4, abs=0.1)
    assert trial.noise < 0.02
    assert trial.kept


def test_a_machine_that_has_changed_is_not_measured_for_ever():
    search = one_trial()
    windows = 0
    while not search.finished:
        search.feed(of_rate(50 if windows else 100))
        windows += 1
        assert windows < 20
    (trial,) = search.trials
    assert not trial.kept


def test_what_may_be_better_by_less_than_the_noise_meets_the_incumbent_again():
    search = one_trial()
    for rate in (106, 106, 110, 116, 116, 104, 110, 110, 102):
        assert not search.trials
        search.feed(of_rate(rate))
    (trial,) = search.trials
    assert trial.noise < 0.04 < trial.gain
    assert trial.kept
    assert trial.seconds == pytest.approx(3)


def test_what_is_not_better_meets_the_incumbent_once():
    search = one_trial()
    search.feed(of_rate(99))
    search.feed(of_rate(100))
    (trial,) = search.trials
    assert not trial.kept


@pytest.mark.parametrize("first_tries", [[], [{"calls": 2}]], ids=["a chance proposal", "a first try"])
def test_a_first_try_that_loses_one_match_by_little_has_another(first_tries):
    search = one_trial(first_tries)
    for rate in (98, 100, 106, 106, 100, 106, 106, 100):
        search.feed(of_rate(rate))
    (trial,) = search.trials
    assert trial.kept == bool(first_tries)


def test_what_gained_less_than_a_single_match_would_have_to_is_kept_after_several():
    search = one_trial([{"calls": 2}])
    while not search.trials:
        search.feed(Window(1015 if search.challenging else 1000, 10.0, 5.0))
    (trial,) = search.trials
    assert trial.gain == pytest.approx(0.015)
    assert trial.kept


def test_where_the_consumer_hardly_waits_nothing_faster_is_searched():
    search = Search(START, SPACE, trials=14)
    assert search.feed(Window(100, 1.0, 0.01)) is None
    assert search.finished
    assert not search.trials


def test_what_training_does_not_need_is_given_back(monkeypatch):
    monkeypatch.setattr("autopipe.tuning.search.lean.processors", lambda: 8)
    search = Search({"calls": -1, "buffer": 4}, SPACE, trials=14)
    run(search, lambda knobs: 0.99 if knobs["calls"] == -1 or knobs["calls"] >= 4 else 0.6)
    assert search.incumbent == {"calls": 4, "buffer": 1}
    assert all(trial.leaner for trial in search.trials)


def test_what_takes_fewer_steps_is_not_kept_for_taking_less_however_unsteady_the_machine_is():
    search = Search({"calls": 2}, {"calls": CategoricalDistribution((1, 2))}, trials=1)
    for steps in (100, 88, 88, 84):
        search.feed(Window(steps, 1.0, 0.01))
    (trial,) = search.trials
    assert trial.leaner
    assert not trial.kept


def test_what_was_given_back_by_luck_is_taken_back_in_the_end():
    def steps(search):
        lucky = search.challenging and not search.trials
        return 100 if lucky or search.running == search.original else 85

    search = Search({"calls": 2}, {"calls": CategoricalDistribution((1, 2))}, trials=1)
    while not search.finished:
        search.feed(Window(steps(search), 1.0, 0.01))
    assert search.trials[0].kept
    assert search.incumbent == {"calls": 2}


def test_nothing_is_given_back_where_a_rate_is_wanted():
    search = Search({"calls": 8, "buffer": 4}, SPACE, trials=4, objective="rate", seed=1)
    run(search, lambda knobs: 0.99)
    assert not any(trial.leaner for trial in search.trials)


def test_first_tries_come_first_and_what_is_not_in_the_space_stays_as_it_is():
    search = Search(START, SPACE, trials=2, first_tries=[{"calls": 8, "buffer": 3}, {"calls": 4}], seed=1)
    run(search, lambda knobs: 0.5)
    first, second = (trial.knobs for trial in search.trials)
    assert (first["calls"], second) == (8, {"calls": 4, "buffer": 1})


class Lost:
    """A study whose storage is lost at the first call of some kind."""

    def __init__(self, call):
        self.call = call
        self.study = open_study(seed=1)

    def __getattr__(self, name):
        if name == self.call:
            raise StorageInternalError("database is locked")
        return getattr(self.study, name)


@pytest.mark.parametrize("call", ["add_trial", "enqueue_trial", "ask", "tell"])
def test_a_study_that_is_lost_ends_the_search_with_the_best_so_far(call):
    search = Search(START, SPACE, trials=14, first_tries=[{"calls": 8, "buffer": 2}], study=Lost(call))
    with pytest.warns(UserWarning, match=r"must be reachable .* database is locked\. .* the best knobs so far") as told:
        run(search, more_is_better)
    assert len(told) == 1
    assert search.incumbent == search.running == ({"calls": 8, "buffer": 2} if call == "tell" else START)
    assert len(search.trials) == (call == "tell")


def test_a_search_whose_study_is_lost_can_be_ended_all_the_same():
    search = Search(START, SPACE, trials=14, study=Lost("tell"))
    for _ in range(10):
        search.feed(Window(steps=100, seconds=1.0, waiting_seconds=0.5))
        if search.challenging:
            break
    with pytest.warns(UserWarning, match="must be reachable"):
        assert search.stop() == START


def test_a_trial_that_somebody_else_has_ended_ends_nothing():
    study = open_study(seed=1)

    def end(knobs):
        for trial in study.get_trials(states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
        return more_is_better(knobs)

    search = Search(START, SPACE, trials=14, study=study)
    run(search, end)
    assert search.incumbent == {"calls": 8, "buffer": 2}


def test_a_study_from_outside_is_asked_and_told():
    import optuna

    study = optuna.create_study(direction="maximize")
    search = Search(START, SPACE, trials=3, study=study, seed=1)
    run(search, more_is_better)
    assert len(study.trials) >= 1 + 3
    assert study.best_value > 1


def windows(search, rate_of):
    """Feed windows until the search is over; a rate for each number of calls."""
    count = 0
    while not search.finished:
        search.feed(Window(round(100 * rate_of(search, count)), 1.0, 0.5))
        count += 1
        assert count < 500


def test_what_was_kept_by_luck_is_found_out_in_the_end():
    def rate(search, count):
        lucky = search.challenging and search.running != search.original and len(search.trials) == 0
        return 1.5 if lucky else 1.0 if search.running == search.original else 0.8

    search = Search(START, SPACE, trials=4, objective="rate", seed=1)
    windows(search, rate)
    assert search.trials[0].kept
    assert search.incumbent == START


def kept_by_what_a_swap_handed_on(later):
    """Return a search that has kept its first challenger, whose later windows have another rate."""
    search = Search(START, SPACE, trials=4, objective="rate", seed=1)
    for rate in (100, 150, 150, 100, later):
        search.feed(of_rate(rate))
    assert [trial.kept for trial in search.trials] == [True]
    return search


def test_what_was_kept_and_makes_far_fewer_steps_meets_the_first_knobs_at_once():
    search = kept_by_what_a_swap_handed_on(later=70)
    assert search.running == START != search.incumbent
    windows(search, lambda search, count: 1.0 if search.running == START else 0.7)
    assert search.incumbent == START
    assert len(search.trials) == 1
    assert kept_by_what_a_swap_handed_on(later=90).running != START


def test_what_was_kept_and_makes_far_fewer_steps_is_not_left_in_the_dataset_by_the_end_of_training():
    assert kept_by_what_a_swap_handed_on(later=70).stop() == START
    assert kept_by_what_a_swap_handed_on(later=90).stop() != START


def test_what_stands_after_it_met_the_first_knobs_again_stays_though_the_machine_is_slower():
    search = kept_by_what_a_swap_handed_on(later=70)
    windows(search, lambda search, count: 0.5 if search.running == START else 0.7)
    assert search._rematch == [False, False]
    assert search.incumbent != START


def test_what_is_better_stays_after_it_met_the_first_knobs_again():
    search = Search(START, SPACE, trials=4, objective="rate", seed=1)
    windows(search, lambda search, count: 1.0 if search.running == search.original else 1.3)
    assert search.incumbent != START
    assert search._rematch == [False, False]


def test_a_challenger_that_is_far_slower_is_known_before_its_window_ends():
    search = Search(START, SPACE, trials=2, seed=1)
    search.feed(Window(100, 1.0, 0.5))
    assert search.challenging
    assert search.is_hopeless(Window(10, 0.5, 0.4))
    assert not search.is_hopeless(Window(45, 0.5, 0.4))
    search.feed(Window(10, 0.5, 0.4))
    assert not search.is_hopeless(Window(10, 0.5, 0.4))


def test_a_trial_that_is_given_up_leaves_the_incumbent_and_the_search_goes_on():
    search = Search(START, SPACE, trials=2, seed=1)
    search.feed(Window(100, 1.0, 0.5))
    search.give_up("too much memory")
    assert search.running == search.incumbent == START
    (trial,) = search.trials
    assert (trial.failure, trial.kept) == ("too much memory", False)
    run(search, lambda knobs: 0.5)
    assert len(search.trials) == 2


def test_a_retreat_ends_with_the_knobs_of_the_start():
    search = Search(START, SPACE, trials=14, seed=1)
    for _ in range(9):
        search.feed(Window(100, 100 / (more_is_better(search.running) * 50 + 1), 0.0))
    search.retreat(START, search.first, "too much memory")
    assert search.finished
    assert search.running == search.incumbent == START
    assert (search.last, search.retreated) == (search.first, "too much memory")


def test_who_goes_back_to_the_first_knobs_has_what_was_measured_of_them():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((1, 2))}, trials=1, objective="rate", seed=0)
    first = Window(100, 1.0, 0.5)
    for window in (first, *[Window(200, 1.0, 0.5)] * 2, first):
        search.feed(window)
    assert search.incumbent == {"calls": 2}
    search.feed(Window(10, 1.0, 0.5))
    assert search.stop() == {"calls": 1}
    assert search.last == first


def test_a_retreat_leads_to_the_knobs_it_is_given_however_doubtful_those_that_were_kept():
    search = Search(START, SPACE, trials=14, seed=1)
    for _ in range(9):
        search.feed(Window(100, 100 / (more_is_better(search.running) * 50 + 1), 0.0))
    search.last = replace(search.first, steps=1)
    before = {"calls": 1, "buffer": 2}
    search.retreat(before, search.first, "too much memory")
    assert search.running == search.incumbent == before


def test_windows_without_a_gpu_reading_are_compared_by_what_all_of_them_have():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((1, 2))}, trials=1, objective="gpu", seed=0)
    for gpu in (0.4, None, 0.4, 0.4):
        search.feed(Window(100, 1.0, 0.1, gpu=gpu))
    assert not search.trials[0].kept


def test_stops_when_all_there_is_was_tried():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((1, 2))}, trials=50, seed=0)
    run(search, lambda knobs: 0.5)
    assert len(search.trials) == 1


def test_is_over_before_it_begins_without_trials_or_knobs():
    assert Search(START, SPACE, trials=0).finished
    assert Search({}, {}, trials=9).finished


def test_the_gpu_is_the_objective_where_there_is_one():
    assert pick_objective("auto", Window(1, 1.0, 0.5, gpu=0.3)) == "gpu"
    assert pick_objective("auto", Window(1, 1.0, 0.5)) == "busy"
