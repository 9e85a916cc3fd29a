"""How fast the stages of a pipeline can be, as they stand, with the best values of their knobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.knobs import read_knobs, with_knobs, with_thread_pool
from autopipe.planning.costs.own_caches import OwnCaches
from autopipe.planning.costs.profile import Profile
from autopipe.planning.measuring.failures import Failures, skipping_failures
from autopipe.planning.measuring.small_shuffles import with_small_shuffles

__all__ = ["Ceiling", "ceiling", "rate_with"]

_CALLS_PER_CORE = (1, 4, 16, 32)
_WARMING = 0.25


@dataclass(frozen=True)
class Ceiling:
    """The best rate.

    Attributes:
        rate: elements per second.
        knobs: the values it was reached with; empty if they are the pipeline's own.
    """

    rate: float
    knobs: Mapping[str, int]


def ceiling(tree: ir.Node, profile: Profile, seconds: float, caches: OwnCaches | None = None) -> Ceiling:
    """Run a pipeline with other numbers and return the best rate.

    A stage that waits for storage gains from far more calls, and threads to run them, than there are cores; one that
    computes does not. Trying more and more calls at once shows which it is. The best of several noisy figures is too
    high, so it runs again, and the mean counts.

    Args:
        tree: the pipeline.
        profile: what it costs as it is; the search begins with its rate.
        seconds: how long to try, in all.
        caches: where its caches are, filled or not, as when the profile was made; by default new, empty ones.
    """
    if caches is None:
        with OwnCaches(tree) as own:
            return ceiling(tree, profile, seconds, own)
    best = Ceiling(profile.stretch.rate, {})
    tries = list(_tries(tree, profile.machine.cores))
    if not tries:
        return best
    each = seconds / (len(tries) + 1)
    tunable = with_thread_pool(with_small_shuffles(tree))
    for knobs in tries:
        rate = rate_with(tunable, knobs, each, caches.build)
        if rate > best.rate:
            best = Ceiling(rate, knobs)
    if best.knobs:
        mean = (best.rate + rate_with(tunable, best.knobs, each, caches.build)) / 2
        return replace(best, rate=max(mean, profile.stretch.rate))
    return best


def _tries(tree: ir.Node, cores: float) -> Iterator[dict[str, int]]:
    """Yield settings with more and more calls at once, as far as the limit of each knob allows.

    The first has one call at a time, so that no call waits for a lock that all calls need, such as the GIL.
    """
    knobs = read_knobs(with_thread_pool(tree))
    calls = [knob for knob in knobs if knob.field == "num_parallel_calls"]
    if not calls:
        return
    at_least = max(round(cores), 1)
    for wanted in sorted({1, *(max(round(factor * cores), 1) for factor in _CALLS_PER_CORE)}):
        threads = {knob.name: max(wanted, at_least) for knob in knobs if knob.field == "size"}
        yield {knob.name: knob.clipped(wanted) for knob in calls} | threads


def rate_with(tree: ir.Node, knobs: Mapping[str, int], seconds: float, make: Callable[[ir.Node], Any] = build) -> float:
    """Read for this many seconds; return elements per second. Elements made while buffers filled are not counted."""
    dataset = make(with_knobs(tree, knobs))
    began = time.perf_counter()
    counted_from, elements = began, 0
    while True:
        empty = True
        for _ in skipping_failures(iter(dataset), Failures()):
            empty = False
            now = time.perf_counter()
            if now - began < _WARMING * seconds:
                counted_from, elements = now, 0
                continue
            elements += 1
            if now - began >= seconds:
                return elements / (now - counted_from)
        if empty:
            return 0.0
