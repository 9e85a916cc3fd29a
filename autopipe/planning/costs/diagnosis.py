"""Whether input is the problem, and which of its stages: the answer in one line, with the figures behind it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from autopipe.figures import rate_text
from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.planning.costs.cache_sizes import CacheSize, cache_sizes
from autopipe.planning.costs.ceiling import Ceiling, ceiling
from autopipe.planning.costs.cost import Bound, cores_needed, limiting
from autopipe.planning.costs.own_caches import OwnCaches
from autopipe.planning.costs.profile import Profile
from autopipe.planning.costs.profiling import profile_tree
from autopipe.planning.measuring.small_shuffles import with_small_shuffles

__all__ = ["LEAST_WAITING", "Diagnosis", "diagnose"]

LEAST_WAITING = 0.05
"""Less than this share of a step spent waiting cannot be told from noise."""

# The share of the time given in which the pipeline runs as it is; in the rest it runs with other knobs.
_AS_IT_IS = 0.5
# If other knobs make the pipeline this many times as fast, it waits for something else than cores.
_HELPED = 1.5
# A stage that computes keeps at least this share of its scarce resource busy, whatever other processes run.
_COMPUTING = 0.25
# A resource that is in use for less than this share of the time is no bottleneck.
_IDLE = 0.2
_SEVERAL = 2


@dataclass(frozen=True)
class Diagnosis:
    """What limits a pipeline.

    Attributes:
        profile: what each stage costs.
        bottleneck: the resource that limits it, and the stage that needs most of it; ``None`` if nothing was measured.
        ceiling: the best rate that the stages as they stand reached, with any values of their knobs.
        rate: steps per second of the consumer on this pipeline; ``None`` without a consumer.
        free_rate: the steps per second if input cost nothing.
        cache_sizes: the size of a cache at every place where one can stand.
    """

    profile: Profile
    bottleneck: Bound | None
    ceiling: Ceiling
    rate: float | None = None
    free_rate: float | None = None
    cache_sizes: tuple[CacheSize, ...] = ()

    @property
    def waiting(self) -> float | None:
        """The share of each step that input costs, 0 to 1; ``None`` without a consumer."""
        if self.rate is None or not self.free_rate:
            return None
        return max(1.0 - self.rate / self.free_rate, 0.0)

    @property
    def resource(self) -> str:
        """The scarce resource of the bottleneck, in words; the gain of other knobs distinguishes waiting from work."""
        if self.bottleneck is None:
            return "nothing that was seen"
        gain = self.ceiling.rate / self.profile.stretch.rate if self.profile.stretch.rate else 1.0
        calls, cores = self.bottleneck.stage.parallelism or 0, self.profile.machine.cores
        busy = self.profile.stretch.cores
        if gain >= _HELPED:
            return f"{self.bottleneck.resource}: with other knobs it is {gain:.1f}x as fast"
        python = any(effects(fn).runs_python for fn in trees.called_by(self.bottleneck.stage.node))
        if calls and python and busy >= _COMPUTING:
            return "Python's GIL"
        return f"the {cores:g} cores" if calls >= cores and busy >= _COMPUTING * cores else self.bottleneck.resource

    @property
    def verdict(self) -> str:
        """The diagnosis in one line."""
        limit = self._limit()
        if self.waiting is None or self.free_rate is None:
            rate = self.profile.in_words(self.profile.stretch.rate)
            return f"{rate}, at the most {rate_text(self.ceiling.rate)}: {limit}"
        if self.waiting < LEAST_WAITING:
            spare = self.ceiling.rate / self.free_rate
            return f"not input-bound: input could be {spare:.1f}x as fast as the consumer takes it; {limit}"
        return f"input-bound: {self.waiting:.0%} of each step waits; {limit}; {self._cores()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain values."""
        found = self.bottleneck
        return {
            "verdict": self.verdict,
            "bottleneck": None
            if found is None
            else {"stage": found.stage.stage, "line": found.stage.line, "resource": self.resource},
            "ceiling": self.ceiling.rate,
            "ceiling_knobs": dict(self.ceiling.knobs),
            "consumer": None
            if self.rate is None
            else {"steps_per_second": self.rate, "free_input": self.free_rate, "waiting": self.waiting},
            "profile": self.profile.to_dict(),
            "cache_sizes": [asdict(each) for each in self.cache_sizes],
        }

    def _limit(self) -> str:
        if self.bottleneck is None:
            return "no stage could be measured"
        found = self.bottleneck.stage
        where = f" ({found.line})" if found.line else ""
        if self.bottleneck.share < _IDLE:
            busy = f"{self.bottleneck.share:.0%} of the time"
            return f"no stage limits it: {found.stage}{where} is the busiest, for {busy}"
        limited = f"{found.stage}{where} takes {found.share:.0%} of the work and is limited by {self.resource}"
        costliest = max(self.profile.stages, key=lambda each: each.seconds_per_element)
        calls = costliest.parallelism or 0
        if costliest.node is found.node or calls < _SEVERAL:
            return limited
        return f"{limited} ({costliest.stage} takes {costliest.share:.0%}, {calls} calls at once)"

    def _cores(self) -> str:
        assert self.free_rate is not None
        needed = math.ceil(cores_needed(self.profile, self.free_rate))
        return f"needs {needed} core{'s' if needed > 1 else ''}, has {self.profile.machine.cores:g}"


def diagnose(tree: ir.Node, seconds: float, pace_on: Callable[[Any], tuple[float, float]] | None = None) -> Diagnosis:
    """Measure a pipeline and say what limits it.

    Args:
        tree: the pipeline.
        seconds: how long to run it.
        pace_on: returns the steps per second of its consumer, with a dataset and if input cost nothing; by default
            there is no consumer.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> found = diagnose(extract(tf.data.Dataset.range(100_000).batch(8)), seconds=0.4)
    >>> found.ceiling.rate >= found.profile.stretch.rate
    True
    """
    with OwnCaches(tree) as caches:
        profile = profile_tree(tree, seconds * _AS_IT_IS, caches)
        best = ceiling(tree, profile, seconds * (1 - _AS_IT_IS), caches)
        rate, free = pace_on(caches.build(with_small_shuffles(tree))) if pace_on else (None, None)
    return Diagnosis(profile, limiting(profile, tree), best, rate, free, cache_sizes(tree, profile))
