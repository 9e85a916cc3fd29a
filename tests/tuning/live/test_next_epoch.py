"""The next iterator starts as long before its time as the last cold one kept waiting."""

import threading
from concurrent.futures import Executor, Future
from types import SimpleNamespace

import pytest

from autopipe.telemetry import StallReading
from autopipe.tuning.live import next_epoch as module
from autopipe.tuning.live.next_epoch import NextEpoch

STEPS = 100


class Data:
    """Notes when an iterator is started early, in steps of its epoch."""

    def __init__(self):
        self.step = 0
        self.started = []
        self.offered = []

    def start_early(self, after):
        self.started.append(self.step)
        return object()

    def offer(self, iterator):
        self.offered.append(iterator)


class AtOnce(Executor):
    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(time=0.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now.time)
    return now


def epoch(following, data, clock, *, waits, iterator=None, start=True, at_once=1):
    """Run an epoch of steps of a second each, whose first element is waited for; some are told of together."""
    stall = SimpleNamespace(read=lambda: StallReading(waits, 1))
    reading = SimpleNamespace(dataset=data, after=(), stall=stall, iterator=lambda: iterator)
    data.step = 0
    while data.step < STEPS:
        to_start = following.seconds_to_start
        steps = min(at_once, STEPS - data.step, at_once if to_start is None else max(int(to_start), 1))
        clock.time += steps
        data.step += steps
        following.step(reading, steps=steps, start=start)


@pytest.mark.parametrize(("waits", "left"), [(10.0, 11), (0.0, 1), (1000.0, STEPS - 1)])
def test_it_starts_a_cold_start_before_the_end(clock, waits, left):
    data, following = Data(), NextEpoch(AtOnce())
    epoch(following, data, clock, waits=waits)
    assert not data.started
    epoch(following, data, clock, waits=waits)
    (step,) = data.started
    assert STEPS - step == pytest.approx(left, abs=1)


def test_who_tells_of_several_steps_at_once_knows_when_it_is_time(clock):
    data, following = Data(), NextEpoch(AtOnce())
    for _ in range(2):
        epoch(following, data, clock, waits=10.0, at_once=20)
    (step,) = data.started
    assert STEPS - step == pytest.approx(11, abs=3)
    assert following.seconds_to_start is None


def test_a_warm_start_does_not_change_how_long_a_cold_one_takes(clock):
    data, following = Data(), NextEpoch(AtOnce())
    for _ in range(2):
        epoch(following, data, clock, waits=10.0)
    for _ in range(3):
        following.offer()
        epoch(following, data, clock, waits=0.0, iterator=data.offered[-1])
    assert len(data.started) == 4
    assert len(set(data.started)) == 1


def test_the_first_epoch_which_fills_caches_does_not_count_for_the_later_ones(clock):
    data, following = Data(), NextEpoch(AtOnce())
    epoch(following, data, clock, waits=80.0)
    epoch(following, data, clock, waits=2.0)
    assert STEPS - data.started[0] <= 4


def test_nothing_starts_unless_it_may(clock):
    data, following = Data(), NextEpoch(AtOnce())
    for _ in range(3):
        epoch(following, data, clock, waits=5.0, start=False)
    assert not data.started


def test_one_that_was_not_asked_for_is_the_last(clock):
    data, following = Data(), NextEpoch(AtOnce())
    for _ in range(4):
        following.offer()
        epoch(following, data, clock, waits=5.0, iterator=object())
    assert len(data.started) == 1


def test_no_step_waits_until_it_is_made_and_who_asks_for_it_does(clock):
    made, following = threading.Event(), NextEpoch()

    class Slow(Data):
        def start_early(self, after):
            assert made.wait(60)
            return super().start_early(after)

    data = Slow()
    for _ in range(2):
        epoch(following, data, clock, waits=10.0)
    assert not data.started
    made.set()
    following.offer()
    assert len(data.started) == len(data.offered) == 1


def test_it_starts_earlier_by_as_long_as_it_takes_to_make(clock):
    class Slow(Data):
        def start_early(self, after):
            clock.time += 20.0
            return super().start_early(after)

    data, following = Slow(), NextEpoch(AtOnce())
    for _ in range(2):
        epoch(following, data, clock, waits=10.0)
    following.offer()
    epoch(following, data, clock, waits=0.0, iterator=data.offered[-1])
    first, second = data.started
    assert first - second == pytest.approx(20, abs=5)
