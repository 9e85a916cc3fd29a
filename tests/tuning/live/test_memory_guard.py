"""Growth beyond the budget is seen."""

import time

import numpy as np

from autopipe.tuning.live.memory_guard import MemoryGuard


def test_growth_beyond_the_budget_is_seen_and_less_is_not():
    guard = MemoryGuard(budget=100 * 2**20)
    assert not guard.is_exceeded()
    held = np.ones(150 * 2**20, np.uint8)
    time.sleep(0.06)
    assert guard.is_exceeded()
    # It looks twenty times a second at the most.
    assert not guard.is_exceeded()
    del held


def test_where_nothing_is_tried_it_looks_twice_a_second():
    guard = MemoryGuard(budget=0)
    guard._limit = 0
    assert guard.is_exceeded(trying=False)
    time.sleep(0.06)
    assert not guard.is_exceeded(trying=False)
    assert guard.is_exceeded()


def test_by_default_half_of_what_is_left_may_be_taken():
    assert MemoryGuard().budget > 10 * 2**20
