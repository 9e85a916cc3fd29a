"""Interleaved measuring: every variant of a case takes its turn in every round, so that drift hits all alike."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import autopipe
from autopipe.planning.measuring.stopwatch import around_median
from autopipe.tuning.offline.tuning import tune
from benchmarks.cases._base import Case

__all__ = [
    "AGAIN",
    "REFERENCE",
    "VARIANTS",
    "CaseResult",
    "Ratio",
    "VariantResult",
    "make_variant",
    "measure",
    "rate_of",
    "reordered",
    "units_of",
]

T = TypeVar("T")

REFERENCE = "expert"
VARIANTS = ("naive", "expert", "best", "autopipe(naive)", "autopipe(expert)")
# A second instance of the reference: what two equal pipelines differ by, where they lie in other memory.
AGAIN = "expert again"
_OURS = ("autopipe(naive)", "autopipe(expert)")
_RIVALS = (REFERENCE, "best", *_OURS, AGAIN)
# By how much two equal pipelines often seem to differ.
_CLOSE = 1.25
_TWO_SIGMA = 1.96


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one variant is as another: the median over rounds, and how far they, or it, may lie."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        """Return the ratio that the ratios of all rounds show."""
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    @classmethod
    def around_median(cls, ratios: list[float]) -> Ratio:
        """Return the median, and the order statistics between which the true one lies 19 times in 20.

        >>> print(Ratio.around_median([1.0] * 40 + [2.0] * 10 + [9.0] * 20))
        1.00 (1.00-2.00)
        """
        return cls(*around_median(ratios, spread=_TWO_SIGMA * len(ratios) ** 0.5 / 2))

    def __str__(self) -> str:
        return f"{self:.2f}"

    def __format__(self, form: str) -> str:
        """Write all three figures in one form."""
        return f"{self.median:{form or '.2f'}} ({self.lowest:{form or '.2f'}}-{self.highest:{form or '.2f'}})"


@dataclass(frozen=True)
class VariantResult:
    """One variant of one case.

    Attributes:
        rates: units per second in each round, after an epoch in which caches fill.
        preparing_seconds: what ``optimize()`` and the tuner took; 0 for a pipeline written by hand.
        rules: the rules autopipe applied.
    """

    rates: tuple[float, ...]
    preparing_seconds: float = 0.0
    rules: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The median rate."""
        return statistics.median(self.rates)


@dataclass(frozen=True)
class CaseResult:
    """Every variant of one case, measured in the same rounds."""

    letter: str
    name: str
    title: str
    unit: str
    variants: dict[str, VariantResult]
    left_as_written: bool = False

    def ratio(self, variant: str, reference: str = REFERENCE) -> Ratio:
        """Return how many times as fast a variant is, in the rounds that both took part in."""
        return Ratio.of(_ratios(self.variants[variant].rates, self.variants[reference].rates))


def make_variant(case: Case, variant: str, data: Any, tuning_seconds: float) -> Any:
    """Return the dataset of a variant; autopipe's is tuned for so long, at the most."""
    if variant == AGAIN:
        variant = REFERENCE
    written, _, of = variant.partition("(")
    if not of:
        return getattr(case, written)(data)
    dataset = autopipe.optimize(getattr(case, of.rstrip(")"))(data), ram_budget=case.ram_budget)
    if tuning_seconds:
        tune(dataset, seconds=tuning_seconds)
    return dataset


def measure(
    case: Case,
    folder: Path,
    *,
    rounds: int,
    instances: int = 1,
    least_seconds: float,
    tuning_seconds: float,
    on_epoch: Callable[[str], None] = lambda variant: None,
) -> CaseResult:
    """Run every variant of a case: a first epoch each, then rounds of whole epochs.

    Epochs are whole: the start of one would count the filling of a shuffle buffer against what flows out of it. Where
    autopipe's variants are close to the reference, all but *naive* are made anew and go on without it: where the
    elements of a cache lie in memory matters as much then as what is done with them. All rounds count alike.

    Args:
        case: the job.
        folder: an empty folder for its data.
        rounds: how often each variant takes its turn after its first epoch.
        instances: how often what is close is made.
        least_seconds: a turn is so many epochs that it lasts so long.
        tuning_seconds: time given to the tuner for autopipe's variants.
        on_epoch: told of the variant before each of its epochs.
    """
    data = case.make_data(folder)
    rates: dict[str, list[float]] = {variant: [] for variant in (*VARIANTS, AGAIN)}

    def make(variant: str, tuning_seconds: float) -> _Instance:
        on_epoch(variant)
        return _Instance.of(case, variant, data, tuning_seconds)

    def take_turns(made: Mapping[str, _Instance], variants: Sequence[str]) -> None:
        for variant in reordered(variants, len(rates[REFERENCE])):
            on_epoch(variant)
            rates[variant].append(rate_of(made[variant].dataset, least_seconds))

    first = {variant: make(variant, tuning_seconds) for variant in rates}
    for _ in range(rounds):
        take_turns(first, tuple(rates))
    for _ in range(instances - 1 if _is_close(rates) else 0):
        others = {variant: make(variant, 0.0).like(first[variant], tuning_seconds) for variant in _RIVALS}
        for _ in range(rounds):
            take_turns(others, _RIVALS)
        del others
    results = {
        variant: VariantResult(
            rates=tuple(rates[variant]),
            preparing_seconds=instance.preparing_seconds if variant in _OURS else 0.0,
            rules=instance.dataset.plan.rules if variant in _OURS else (),
        )
        for variant, instance in first.items()
    }
    return CaseResult(case.letter, case.name, case.title, case.unit, results, case.left_as_written)


@dataclass(frozen=True)
class _Instance:
    """A variant made once, after its first epoch."""

    dataset: Any
    preparing_seconds: float

    @classmethod
    def of(cls, case: Case, variant: str, data: Any, tuning_seconds: float) -> _Instance:
        began = time.perf_counter()
        dataset = make_variant(case, variant, data, tuning_seconds)
        preparing_seconds = time.perf_counter() - began
        # Caches fill.
        rate_of(dataset)
        return cls(dataset, preparing_seconds)

    def like(self, tuned: _Instance, tuning_seconds: float) -> _Instance:
        """Return this one with the knobs of another; what was measured may have led to other stages, tuned anew."""
        if not isinstance(self.dataset, autopipe.OptimizedDataset):
            return self
        if self.dataset.knobs.keys() == tuned.dataset.knobs.keys():
            self.dataset.retune(tuned.dataset.knobs)
        elif tuning_seconds:
            tune(self.dataset, seconds=tuning_seconds)
        return self


def _is_close(rates: Mapping[str, Sequence[float]]) -> bool:
    """Return whether one of autopipe's variants is as fast as either instance of the reference, or nearly so."""
    pairs = product(_OURS, (REFERENCE, AGAIN))
    medians = (statistics.median(_ratios(rates[variant], rates[reference])) for variant, reference in pairs)
    return any(1 / _CLOSE < median < _CLOSE for median in medians)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=False)]


def rate_of(dataset: Any, least_seconds: float = 0.0) -> float:
    """Read whole epochs, each from a new iterator as Keras does, for so long; return units per second."""
    units, seconds = units_of(dataset, least_seconds)
    return units / seconds


def units_of(dataset: Any, least_seconds: float = 0.0) -> tuple[int, float]:
    """Read whole epochs for so long; return how many units they had, and the seconds they took."""
    units = 0
    began = time.perf_counter()
    while not units or time.perf_counter() - began < least_seconds:
        units += sum(_batch_sizes(dataset))
    return units, time.perf_counter() - began


def _batch_sizes(dataset: Any) -> Iterator[int]:
    import tensorflow as tf

    for batch in dataset:
        leaf = tf.nest.flatten(batch, expand_composites=True)[0]
        yield int(leaf.shape[0])


def reordered(names: Sequence[T], number: int) -> list[T]:
    """Return all names in the order of a round, of which each second one is the reverse of the one before.

    What comes after a like one has it easier, so nobody may always come after the same.

    >>> reordered("abc", 0) == reordered("abc", 1)[::-1]
    True
    """
    order = random.Random(number // 2).sample(names, len(names))
    return order[::-1] if number % 2 else order
