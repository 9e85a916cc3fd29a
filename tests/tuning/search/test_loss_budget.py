"""Trials wait until what they lose is a small share of the whole."""

import math

import pytest
from optuna.distributions import CategoricalDistribution

from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window

SPACE = {"calls": CategoricalDistribution((-1, 1, 2, 4, 8)), "buffer": CategoricalDistribution((1, 2, 4))}
START = {"calls": 1, "buffer": 1}


def test_trials_wait_until_what_they_lost_is_a_small_share_of_the_whole():
    search = Search(START, SPACE, trials=6, most_loss=0.05, seed=1)
    seconds = {"incumbent": 0.0, "challenger": 0.0}
    while not search.finished and seconds["incumbent"] < 60:
        challenging = search.challenging
        seconds["challenger" if challenging else "incumbent"] += 1.0
        search.feed(Window(50 if challenging else 100, 1.0, 0.5))
        lost = 0.5 * seconds["challenger"]
        # One trial may begin before it is known that it costs more than two swaps.
        assert lost <= 0.05 * sum(seconds.values()) + 0.35
    assert len(search.trials) >= 4


def test_the_neighbour_of_a_challenger_is_not_a_window_in_which_the_search_had_to_wait():
    search = Search(START, SPACE, trials=6, most_loss=0.01, seed=1)
    assert search.seconds_to_wait == 0
    assert search.feed(Window(100, 1.0, 0.5)) is None
    to_wait = search.seconds_to_wait
    assert to_wait > 1
    assert search.feed(Window(100, to_wait / 2, 0.5)) is None
    assert search.seconds_to_wait == pytest.approx(to_wait / 2)
    assert search.feed(Window(100, to_wait, 0.5)) is None
    assert search.seconds_to_wait == 0
    neighbour = Window(100, 1.0, 0.5)
    assert search.feed(neighbour) == search.running != START
    assert search._before is neighbour


@pytest.mark.parametrize(
    ("objective", "waiting", "share"),
    [("busy", 0.5, 0.01), ("busy", 0.05, 0.005), ("busy", 0.0, 0.002), ("rate", 0.0, 0.01)],
)
def test_where_training_hardly_waits_trials_may_lose_less(objective, waiting, share):
    search = Search(START, SPACE, most_loss=0.01, objective=objective, seed=1)
    search.feed(Window(100, 1.0, waiting))
    search.feed(Window(100, 1.0, waiting))
    assert search.share_to_lose == pytest.approx(share)
    assert Search(START, SPACE, objective=objective).share_to_lose == math.inf


def test_what_is_lost_until_a_slow_challenger_ends_counts_as_lost():
    search = Search(START, SPACE, trials=2, seed=1)
    search.feed(Window(100, 1.0, 0.5))
    assert search.losing == 0
    search.feed(Window(75, 1.0, 0.5))
    assert search.losing == pytest.approx(0.25)
    search.ran_on(8.0)
    assert search.lost_seconds == pytest.approx(2.0)
    search.feed(Window(100, 1.0, 0.5))
    assert search.losing == 0


def test_trials_wait_until_what_their_swaps_took_is_a_small_share_of_the_whole():
    search = Search(START, SPACE, trials=6, most_loss=0.05, seed=1)
    running = 0.0
    while not search.finished and running < 200:
        running += 1.0
        if search.feed(Window(100, 1.0, 0.5)) is not None:
            search.swapped(0.5)
        # One trial, of two swaps, may begin before it is known what they cost.
        assert search.swap_seconds <= 0.05 * (running + search.swap_seconds) + 0.85
    assert len(search.trials) == 6
    assert search.swap_seconds == 6.0
