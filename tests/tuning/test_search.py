"""The search against a simulated machine: it finds the best, it does not believe drift, it never keeps a loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution

from autopipe.errors import ArgumentError
from autopipe.tuning.search import Search
from autopipe.tuning.window import Window, pick_objective

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
    search = Search(START, SPACE, trials=6, seed=seed)
    run(search, more_is_better)
    assert more_is_better(search.incumbent) >= more_is_better(START)


def test_does_not_keep_less_waiting_bought_with_fewer_steps():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((1, 2))}, trials=1, seed=0)
    search.feed(Window(100, 1.0, 0.5))
    search.feed(Window(80, 1.0, 0.1))
    search.feed(Window(100, 1.0, 0.5))
    (trial,) = search.trials
    assert trial.gain > 0.5
    assert not trial.kept


def test_stops_at_once_when_the_consumer_hardly_waits():
    search = Search(START, SPACE, trials=14)
    assert search.feed(Window(100, 1.0, 0.01)) is None
    assert search.finished
    assert not search.trials


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
    with pytest.raises(ArgumentError, match="objective must be auto, busy, gpu, rate, but got 'x'"):
        pick_objective("x", Window(1, 1.0, 0.5))
