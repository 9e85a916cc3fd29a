"""The searches of a training need no Keras: whatever reads a dataset may tell them of its steps."""

import math
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf
from optuna.distributions import CategoricalDistribution

import autopipe
from autopipe.runtime.readings import observe
from autopipe.search_spaces import default
from autopipe.tuning.live.memory_guard import MemoryGuard
from autopipe.tuning.live.next_epoch import NextEpoch
from autopipe.tuning.live.searches import LiveSearch, Settings, live_space
from autopipe.tuning.live.watch import Watch
from autopipe.tuning.search.window import Window
from autopipe.tuning.studies import open_study

MOST_EPOCHS = 300


class Reader:
    """Knows what is being read."""

    def __init__(self):
        self.reading = None
        observe(self)

    def reading_started(self, reading):
        self.reading = reading


@pytest.fixture
def dataset():
    return autopipe.optimize(tf.data.Dataset.range(64).shuffle(8).batch(2).prefetch(1), rules=(), seconds=0)


def sizes(knobs, machine):
    return {knob.name: CategoricalDistribution((knob.least, 64)) for knob in knobs if knob.field == "buffer_size"}


def test_a_space_has_all_knobs_and_those_are_searched_that_can_change_at_once(dataset):
    assert list(live_space(sizes, dataset)) == ["prefetch.buffer_size"]


def test_a_space_has_the_choices_it_had_at_first_whatever_was_found_since_so_that_a_study_can_go_on():
    dataset = autopipe.optimize(tf.data.Dataset.range(64).prefetch(3), rules=(), seconds=0)
    made = live_space(default, dataset)
    assert made["prefetch.buffer_size"].choices == (-1, 1, 2, 3, 4, 8, 16)
    dataset.retune({"prefetch.buffer_size": 4})
    assert live_space(default, dataset) == made
    dataset.retune({"prefetch.buffer_size": 5})
    assert live_space(default, dataset)["prefetch.buffer_size"].choices == (-1, 1, 2, 4, 5, 8, 16)


class Guard:
    """Says that the process has grown too much when it is told to."""

    budget = 1
    room = 2**30
    exceeded = False

    def is_exceeded(self, *, trying):
        return self.exceeded


def search_of(dataset, guard, study=None, **settings):
    asked = {"trials": 1, "space": sizes, "objective": "rate", "window_seconds": 0.001, "most_loss": math.inf}
    of_training = {"study": study, "guard": guard, "next_epoch": NextEpoch(), "gpu": None, "in_loop": True}
    return LiveSearch(dataset, Settings(**{**asked, "seed": 1, **settings}), **of_training)


def test_what_won_stays_while_memory_of_a_challenger_is_let_go_and_is_given_up_if_that_is_not_enough(
    dataset, monkeypatch
):
    reader, guard = Reader(), Guard()
    live = search_of(dataset, guard, trials=9)
    for _ in range(MOST_EPOCHS):
        for _ in dataset:
            live.steps_ended(reader.reading, 1)
            guard.exceeded = live.search.challenging or guard.exceeded
            if live.search.trials:
                break
            # As if the knobs that run had won.
            live.search.original = {name: value + 1 for name, value in live.search.incumbent.items()}
        if live.search.trials:
            break
    assert live.search.trials[0].failure
    live.steps_ended(reader.reading, 1)
    assert not live.search.finished
    monkeypatch.setattr("autopipe.tuning.live.searches._SECONDS_TO_LET_GO", 0.0)
    live.steps_ended(reader.reading, 1)
    assert live.search.finished


def test_a_search_that_was_ended_for_want_of_memory_is_not_followed_by_another(dataset):
    live = search_of(dataset, Guard())
    live._watch = Watch("rate", Window(100, 1.0, 0.0))
    slow = Window(10, 1.0, 0.0)
    while len(live.searches) == 1:
        live._look_on(slow)
    live.search.retreat(live.searches[0].original, live.searches[0].first, "memory ran short")
    for _ in range(9):
        live._look_on(slow)
    assert len(live.searches) == 2


def test_nor_is_one_that_was_over_when_memory_ran_short(dataset, monkeypatch):
    monkeypatch.setattr("autopipe.tuning.live.searches._SECONDS_TO_LET_GO", 0.0)
    reader, guard = Reader(), Guard()
    live = search_of(dataset, guard)
    iterator = iter(dataset)
    next(iterator)
    while not live.search.finished:
        live.search.feed(Window(100 if live.search.running == live.search.original else 200, 1.0, 0.0))
    assert live.search.incumbent != live.search.original
    live._watch = Watch("rate", live.search.last)
    guard.exceeded = True
    live.steps_ended(reader.reading, 1)
    assert live.search.incumbent == live.search.original
    assert "budget of 1 B" in live.search.retreated
    for _ in range(9):
        live._look_on(Window(100, 1.0, 0.0))
    assert len(live.searches) == 1


def test_a_search_is_told_of_steps_and_leaves_what_is_read_whole(dataset):
    reader = Reader()
    live = search_of(dataset, MemoryGuard())
    for _ in range(MOST_EPOCHS):
        seen = []
        for batch in dataset:
            seen += batch.numpy().tolist()
            live.steps_ended(reader.reading, 1)
        assert sorted(seen) == list(range(64))
        if live.search.trials:
            break
    assert [trial.knobs["prefetch.buffer_size"] for trial in live.search.trials] == [64]


def test_no_more_elements_are_made_ahead_than_there_is_room_for(dataset):
    class Full(Guard):
        room = 300

    reader = Reader()
    live = search_of(dataset, Full(), trials=3, space=default)
    # A batch of two numbers takes 16 bytes.
    most = 300 // 2 // 16
    for _ in range(MOST_EPOCHS):
        for _ in dataset:
            live.steps_ended(reader.reading, 1)
            assert reader.reading.knobs["prefetch.buffer_size"] <= most
        if live.search.finished:
            break
    assert {trial.knobs["prefetch.buffer_size"] for trial in live.search.trials} & {2, 4, 8}


class SlowStudy:
    """Takes as long to propose as a clock is put forward."""

    def __init__(self, clock):
        self.clock = clock
        self.study = open_study(seed=1)

    def __getattr__(self, name):
        return getattr(self.study, name)

    def ask(self, *arguments):
        self.clock.skipped += 7.0
        return self.study.ask(*arguments)


def test_the_time_a_study_takes_is_lost(dataset, monkeypatch):
    clock, ticks = SimpleNamespace(skipped=0.0), time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: ticks() + clock.skipped)
    reader = Reader()
    live = search_of(dataset, Guard(), study=SlowStudy(clock))
    while not clock.skipped:
        for _ in dataset:
            live.steps_ended(reader.reading, 1)
            if clock.skipped:
                break
    assert live.search.lost_seconds >= clock.skipped
    assert live.search.swap_seconds < clock.skipped
