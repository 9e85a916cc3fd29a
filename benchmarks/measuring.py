"""Interleaved measuring: every variant of a case takes its turn in every round, so that drift hits all alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import autopipe
from autopipe.planning.stopwatch import around_median
from autopipe.tuning.offline import tune
from benchmarks.cases._base import Case

__all__ = [
    "REFERENCE",
    "VARIANTS",
    "CaseResult",
    "Ratio",
    "VariantResult",
    "make_variant",
    "measure",
    "rate_of",
    "rotated",
    "units_of",
]

T = TypeVar("T")

REFERENCE = "expert"
VARIANTS = ("naive", "expert", "best", "autopipe(naive)", "autopipe(expert)")
_OURS = ("autopipe(naive)", "autopipe(expert)")
# What counts as slower than the reference.
_SLOWER = 0.97


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one variant is as another: the median over rounds, and its extremes."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        """Return the ratio that the ratios of all rounds show."""
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self:.2f}"

    def __format__(self, form: str) -> str:
        """Write all three figures in one form."""
        return f"{self.median:{form or '.2f'}} ({self.lowest:{form or '.2f'}}-{self.highest:{form or '.2f'}})"


@dataclass(frozen=True)
class VariantResult:
    """One variant of one case.

    Attributes:
        first_epoch_rate: units per second of the first epoch, in which caches fill.
        rates: units per second in each round after it.
        preparing_seconds: what ``optimize()`` and the tuner took; 0 for a pipeline written by hand.
        rules: the rules autopipe applied.
    """

    first_epoch_rate: float
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
    rounds_seconds: float = 0.0,
    least_seconds: float,
    tuning_seconds: float,
    on_epoch: Callable[[str], None] = lambda variant: None,
) -> CaseResult:
    """Run every variant of a case: a first epoch each, then rounds of whole epochs.

    Epochs are whole: the start of one would count the filling of a shuffle buffer against what flows out of it. Where
    noise hides whether autopipe made a pipeline slower, that variant and the reference go on alone.

    Args:
        case: the job.
        folder: an empty folder for its data.
        rounds: how often each variant takes its turn after its first epoch.
        rounds_seconds: for how long there are more rounds, at the most, of what is undecided then.
        least_seconds: a turn is so many epochs that it lasts so long.
        tuning_seconds: time given to the tuner for autopipe's variants.
        on_epoch: told of the variant before each of its epochs.
    """
    data = case.make_data(folder)
    datasets: dict[str, Any] = {}
    first: dict[str, float] = {}
    preparing: dict[str, float] = {}
    for variant in VARIANTS:
        on_epoch(variant)
        began = time.perf_counter()
        datasets[variant] = make_variant(case, variant, data, tuning_seconds)
        preparing[variant] = time.perf_counter() - began
        first[variant] = rate_of(datasets[variant])
    rates: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    contenders: Sequence[str] = VARIANTS
    end = math.inf
    while contenders:
        for variant in rotated(contenders, len(rates[REFERENCE])):
            on_epoch(variant)
            rates[variant].append(rate_of(datasets[variant], least_seconds))
        if len(rates[REFERENCE]) >= rounds:
            end = min(end, time.perf_counter() + rounds_seconds)
            contenders = _undecided(contenders, rates) if time.perf_counter() < end else ()
    results = {
        variant: VariantResult(
            first_epoch_rate=first[variant],
            rates=tuple(rates[variant]),
            preparing_seconds=preparing[variant] if "(" in variant else 0.0,
            rules=datasets[variant].plan.rules if "(" in variant else (),
        )
        for variant in VARIANTS
    }
    return CaseResult(case.letter, case.name, case.title, case.unit, results, case.left_as_written)


def _undecided(contenders: Sequence[str], rates: dict[str, list[float]]) -> Sequence[str]:
    """Return the reference and those of autopipe's variants that may be slower than it, or not; nobody if none is."""
    left = []
    for variant in (name for name in contenders if name in _OURS):
        _, low, high = around_median(_ratios(rates[variant], rates[REFERENCE]))
        if low < _SLOWER <= high:
            left.append(variant)
    return (REFERENCE, *left) if left else ()


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


def rotated(names: Sequence[T], by: int) -> Iterator[T]:
    """Yield all names, starting with another one in each round."""
    start = by % len(names)
    return islice((*names, *names), start, start + len(names))
