"""Jobs that work in turn, a stretch each, so that a machine that drifts does so for all alike."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["relay"]

T = TypeVar("T")


def relay(jobs: Mapping[str, Callable[[Callable[[], None]], T]], *, seed: int = 0) -> dict[str, T]:
    """Run each job on a thread of its own, one of them at a time, and return what they return.

    A job is given a function to call between two stretches of its work: it returns when all the others, in an order
    that is another one each time, have done a stretch of theirs. What a job raises is raised when all have ended.

    >>> def job(name):
    ...     def work(pass_on):
    ...         done.append(name)
    ...         pass_on()
    ...         done.append(name)
    ...         return name.upper()
    ...     return work
    >>> done = []
    >>> relay({"a": job("a"), "b": job("b")})
    {'a': 'A', 'b': 'B'}
    >>> sorted(done[:2]), sorted(done[2:])
    (['a', 'b'], ['a', 'b'])
    """
    baton = _Baton(list(jobs), random.Random(seed))

    def run(name: str) -> T:
        baton.wait(name)
        try:
            return jobs[name](lambda: baton.pass_on(name))
        finally:
            baton.leave(name)

    with ThreadPoolExecutor(len(jobs), "relay") as pool:
        ended = {name: pool.submit(run, name) for name in jobs}
    return {name: each.result() for name, each in ended.items()}


class _Baton:
    """Who holds it works. All have it once before anyone has it again."""

    def __init__(self, names: list[str], order: random.Random) -> None:
        self._names = names
        self._order = order
        self._to_come: list[str] = []
        self._moved = threading.Condition()
        with self._moved:
            self._move()

    def wait(self, name: str) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self._holder == name)

    def pass_on(self, name: str) -> None:
        with self._moved:
            self._move()
        self.wait(name)

    def leave(self, name: str) -> None:
        with self._moved:
            self._names.remove(name)
            self._move()

    def _move(self) -> None:
        self._to_come = self._to_come or self._order.sample(self._names, len(self._names))
        self._holder = self._to_come.pop() if self._to_come else None
        self._moved.notify_all()
