"""Few steps are looked at: when it is time, or after a share of an epoch."""

from types import SimpleNamespace

import pytest

from autopipe.tuning.live import step_counter as module
from autopipe.tuning.live.step_counter import StepCounter


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(time=100.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now.time)
    return now


def looked_at(counter, clock, *, steps, step_seconds, distance):
    """Return which steps of an epoch were looked at."""
    looks = []
    for number in range(1, steps + 1):
        clock.time += step_seconds
        if counter.count():
            looks.append(number)
            counter.take()
            counter.look_after(distance, looks_in_epoch=4)
    counter.take()
    counter.end_epoch(looks_in_epoch=4)
    return looks


def test_long_epochs_are_looked_at_from_time_to_time(clock):
    counter = StepCounter()
    for _ in range(2):
        looks = looked_at(counter, clock, steps=1000, step_seconds=1.0, distance=10.0)
    assert looks == list(range(looks[0], 1001, 10))


def test_short_epochs_are_looked_at_as_often_as_told(clock):
    counter = StepCounter()
    first, second = (looked_at(counter, clock, steps=40, step_seconds=1.0, distance=1000.0) for _ in range(2))
    assert second == [10, 20, 30, 40]
    assert len(first) < 40 / 2


def test_a_first_epoch_that_never_ends_is_not_looked_at_at_every_step(clock):
    looks = looked_at(StepCounter(), clock, steps=100_000, step_seconds=0.001, distance=0.2)
    assert len(looks) < 2 * 100_000 * 0.001 / 0.2


def test_the_next_step_is_looked_at_if_it_is_asked_for(clock):
    counter = StepCounter()
    looked_at(counter, clock, steps=40, step_seconds=1.0, distance=1000.0)
    counter.look_after(1000.0, looks_in_epoch=4)
    assert not counter.count()
    counter.look_at_next()
    assert counter.count()
    assert counter.take() == 2
