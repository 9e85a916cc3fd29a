"""Growth beyond the budget is seen."""

from types import SimpleNamespace

import numpy as np
import pytest

from autopipe.tuning.live import memory_guard
from autopipe.tuning.live.memory_guard import MemoryGuard


@pytest.fixture
def clock(monkeypatch):
    """Tells the time it is given."""
    now = {"seconds": 100.0}
    monkeypatch.setattr(memory_guard, "time", SimpleNamespace(perf_counter=lambda: now["seconds"]))
    return now


def test_growth_beyond_the_budget_is_seen_and_less_is_not(clock):
    guard = MemoryGuard(budget=100 * 2**20)
    assert not guard.is_exceeded()
    held = np.ones(150 * 2**20, np.uint8)
    clock["seconds"] += 0.06
    assert guard.is_exceeded()
    # It looks twenty times a second at the most.
    clock["seconds"] += 0.04
    assert not guard.is_exceeded()
    del held


def test_what_was_promised_to_caches_comes_on_top(resident):
    guard = MemoryGuard(budget=100, promised=50)
    resident["bytes"] = 150
    assert not guard.is_exceeded()
    resident["bytes"] = 151
    assert guard.is_exceeded()


@pytest.mark.parametrize(("held", "room"), [(0, 100), (30, 100), (70, 80), (150, 0), (200, 0)])
def test_there_is_room_for_what_is_left_of_the_budget_and_of_what_was_promised(resident, held, room):
    guard = MemoryGuard(budget=100, promised=50)
    resident["bytes"] = held
    assert guard.room == room


def test_where_nothing_is_tried_it_looks_twice_a_second(clock):
    guard = MemoryGuard(budget=0)
    guard._limit = 0
    assert guard.is_exceeded(trying=False)
    clock["seconds"] += 0.06
    assert not guard.is_exceeded(trying=False)
    assert guard.is_exceeded()


@pytest.fixture
def resident(monkeypatch):
    """Looks at so many bytes, as often as it is asked to."""
    held = {"bytes": 0}
    monkeypatch.setattr(memory_guard, "resident_bytes", lambda: held["bytes"])
    monkeypatch.setattr(memory_guard, "_LOOK_SECONDS", 0.0)
    return held


def test_what_is_left_out_is_allowed_and_the_budget_stays(resident):
    guard = MemoryGuard(budget=10)
    resident["bytes"] = 8
    assert not guard.is_exceeded()
    resident["bytes"] = 108
    guard.leave_out()
    assert not guard.is_exceeded()
    resident["bytes"] = 110
    assert not guard.is_exceeded()
    resident["bytes"] = 111
    assert guard.is_exceeded()


def test_what_was_taken_back_before_leaves_room_for_what_is_left_out(resident):
    guard = MemoryGuard(budget=10)
    for held, exceeded in ((20, True), (0, False)):
        resident["bytes"] = held
        assert guard.is_exceeded() is exceeded
    resident["bytes"] = 100
    guard.leave_out()
    assert not guard.is_exceeded()


def test_buffers_that_fill_again_in_every_epoch_do_not_raise_the_limit_with_each(resident):
    guard = MemoryGuard(budget=10)
    for _ in range(9):
        resident["bytes"] = 0
        assert not guard.is_exceeded()
        resident["bytes"] = 8
        guard.leave_out()
    resident["bytes"] = 19
    assert guard.is_exceeded()


def test_by_default_half_of_what_is_left_may_be_taken():
    assert MemoryGuard().budget > 10 * 2**20
