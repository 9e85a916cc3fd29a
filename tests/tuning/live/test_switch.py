"""A live iterator is changed where that is worth what it takes; else the next one has the knobs."""

from types import SimpleNamespace

import pytest
from optuna.distributions import IntDistribution

from autopipe.tuning.live import switch as module
from autopipe.tuning.live.switch import Switch
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window

START = {"map.num_parallel_calls": 2}
SWAP_SECONDS = 0.5


class Data:
    """A dataset, and what its knobs are changed with; a change of a live iterator takes half a second."""

    def __init__(self, clock):
        self.knobs = dict(START)
        self.calls = []
        self.clock = clock

    def retune(self, knobs):
        self._change("retune", knobs)
        self.knobs = self.reading.knobs = dict(knobs)

    def retune_next(self, knobs):
        self.calls.append("retune_next")
        self.knobs = dict(knobs)

    def try_out(self, reading, knobs):
        self._change("try_out", knobs)
        reading.knobs = dict(knobs)

    def try_out_next(self, knobs):
        self.calls.append("try_out_next")

    def _change(self, name, knobs):
        self.calls.append(name)
        self.clock.time += SWAP_SECONDS


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(time=0.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now.time)
    return now


@pytest.fixture
def search():
    space = {"map.num_parallel_calls": IntDistribution(1, 64)}
    return Search(START, space, objective="rate", first_tries=[{"map.num_parallel_calls": 8}], seed=1)


def switch_of(search, data, *, seconds_to_come, in_loop=False):
    data.reading = SimpleNamespace(dataset=data, knobs=dict(START))
    return Switch(search, SimpleNamespace(seconds_to_come=seconds_to_come), 0.01, in_loop=in_loop)


def feed(search, *rates):
    for rate in rates:
        search.feed(Window(int(rate), 1.0, 0.5))


@pytest.mark.parametrize("seconds_to_come", [None, -1.0, 1000.0], ids=["first epoch", "longer than before", "long"])
def test_a_challenger_runs_at_once_where_the_epoch_goes_on_for_long_or_nobody_knows(clock, search, seconds_to_come):
    data = Data(clock)
    switch = switch_of(search, data, seconds_to_come=seconds_to_come)
    feed(search, 100)
    switch.when_worth_it(data.reading)
    assert data.calls == ["try_out"]
    assert data.reading.knobs == search.running != data.knobs == START
    assert search.swap_seconds == SWAP_SECONDS


@pytest.mark.parametrize(("in_loop", "calls"), [(False, []), (True, ["try_out_next"])], ids=["fit", "loop"])
def test_in_a_short_epoch_a_challenger_waits_for_the_next_iterator(clock, search, in_loop, calls):
    data = Data(clock)
    switch = switch_of(search, data, seconds_to_come=1.0, in_loop=in_loop)
    feed(search, 100)
    switch.when_worth_it(data.reading)
    assert data.calls == calls
    assert not switch.runs(data.reading)
    assert data.calls == calls
    data.reading = SimpleNamespace(dataset=data, knobs=search.running)
    assert switch.runs(data.reading)
    assert search.lost_seconds == 0


def test_a_challenger_that_loses_more_than_a_swap_takes_is_ended_at_once(clock, search):
    data = Data(clock)
    switch = switch_of(search, data, seconds_to_come=1.0)
    feed(search, 100)
    data.reading.knobs = dict(search.running)
    feed(search, 20)
    assert search.losing == pytest.approx(0.8)
    switch.when_worth_it(data.reading)
    assert data.calls == ["retune"]
    assert data.reading.knobs == START


@pytest.mark.parametrize(
    ("rate", "call"), [(105, "retune_next"), (900, "retune")], ids=["little to win", "much to win"]
)
def test_what_is_kept_is_set_for_good_at_once_or_from_the_next_iterator_on(clock, search, rate, call):
    data = Data(clock)
    switch = switch_of(search, data, seconds_to_come=1.0)
    feed(search, 100)
    challenger = dict(search.running)
    feed(search, rate, rate)
    assert search.losing == 0
    feed(search, 100)
    assert search.running == search.incumbent == challenger
    assert search.losing == pytest.approx(1 - 100 / rate)
    switch.when_worth_it(data.reading)
    assert data.calls == [call]
    assert data.knobs == challenger
    # What was not won is not lost.
    assert search.lost_seconds == search.swap_seconds
    feed(search, rate)
    assert search.losing == 0


def test_an_iterator_that_cannot_be_changed_is_left_alone(clock, search):
    data = Data(clock)
    switch = switch_of(search, data, seconds_to_come=None, in_loop=True)
    data.try_out = lambda reading, knobs: data.calls.append("try_out")
    feed(search, 100)
    switch.when_worth_it(data.reading)
    assert not switch.runs(data.reading)
    assert data.calls == ["try_out", "try_out_next"]
