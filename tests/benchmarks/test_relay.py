"""Jobs that work in turn."""

import threading
from collections import Counter

import pytest

from benchmarks.relay import relay


def working(log, name, stretches):
    def work(pass_on):
        for number in range(stretches):
            if number:
                pass_on()
            log.append(name)
        return threading.current_thread().name

    return work


def test_one_works_at_a_time_and_all_others_before_it_does_again():
    log = []
    busy = threading.Lock()

    def work(name, pass_on):
        for _ in range(50):
            assert busy.acquire(blocking=False)
            log.append(name)
            busy.release()
            pass_on()

    relay({name: lambda pass_on, name=name: work(name, pass_on) for name in "abc"})
    assert all(Counter(log[start : start + 3]) == Counter("abc") for start in range(0, len(log), 3))
    orders = {tuple(log[start : start + 3]) for start in range(0, len(log), 3)}
    assert len(orders) == 6


def test_each_works_on_a_thread_of_its_own_and_the_seed_tells_the_order():
    first, again = [], []
    threads = relay({name: working(first, name, 3) for name in "abcd"}, seed=5)
    relay({name: working(again, name, 3) for name in "abcd"}, seed=5)
    assert list(threads) == list("abcd")
    assert len({*threads.values(), threading.current_thread().name}) == 5
    assert first == again


def test_those_that_have_more_to_do_go_on_without_the_others():
    log = []
    relay({"short": working(log, "short", 1), "long": working(log, "long", 4)})
    assert sorted(log[:2]) == ["long", "short"]
    assert log[2:] == ["long"] * 3


def test_an_error_is_raised_when_the_others_have_ended():
    log = []

    def failing(pass_on):
        pass_on()
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        relay({"failing": failing, "other": working(log, "other", 5)})
    assert log == ["other"] * 5
