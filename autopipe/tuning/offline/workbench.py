"""Where settings are compared: a consumer reads them one after the other, in short turns."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf

from autopipe.pipeline import trees
from autopipe.planning.measuring.whole_epochs import elements_of_epoch, elements_within
from autopipe.tuning.offline.choices import Choice, Choices

if TYPE_CHECKING:
    from autopipe.planning.costs.consumer import Consumer
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["LocalWorkbench", "Pair", "TrialFailedError", "Workbench"]

# An epoch of more than this many turns is not short any more.
_LONGEST_EPOCH = 8


class TrialFailedError(Exception):
    """A setting could not be measured; the message says why. The search goes on."""


@dataclass(frozen=True)
class Pair:
    """A turn of a challenger, compared with those of its reference.

    Attributes:
        ratio: how many times as many steps per second the consumer made in it.
        seconds: how long it took, with caches that were full before.
    """

    ratio: float
    seconds: float


class Workbench(Protocol):
    """Compares settings."""

    def pairs(self, reference: Choice, challenger: Choice) -> Iterator[Pair]:
        """Compare two settings again and again, without end.

        Raises:
            TrialFailedError: if the challenger cannot be measured.
        """
        ...


@dataclass(frozen=True)
class LocalWorkbench:
    """Compares settings in this process.

    Short epochs, as most that come from memory, are read as a whole: the time of their start then matters.

    Attributes:
        choices: the pipelines.
        consumer: what reads them.
        seconds: the least length of a turn.
    """

    choices: Choices
    consumer: Consumer
    seconds: float
    _whole_epochs: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    def pairs(self, reference: Choice, challenger: Choice) -> Iterator[Pair]:
        """Compare each turn of the challenger with the turns of the reference before and after: machines drift."""
        before = self.steps_per_second(reference)
        while True:
            between, seconds = self._challenge(challenger)
            after = self.steps_per_second(reference)
            yield Pair(2 * between / (before + after), seconds)
            before = after

    def steps_per_second(self, choice: Choice) -> float:
        """Let the consumer read for one turn."""
        dataset = self._ready(choice)
        return self.consumer.steps_per_second(dataset, self.seconds, whole_epochs=self._whole_epochs[choice.structure])

    def _ready(self, choice: Choice) -> OptimizedDataset:
        """Return the pipeline of a setting, with its knobs set and its caches full."""
        dataset = self.choices.datasets[choice.structure]
        dataset.retune(choice.knobs)
        if choice.structure not in self._whole_epochs:
            self._whole_epochs[choice.structure] = self._prepare(dataset)
        return dataset

    def _challenge(self, challenger: Choice) -> tuple[float, float]:
        """Return the rate of a turn, and how long it took."""
        try:
            self._ready(challenger)
            began = time.perf_counter()
            rate = self.steps_per_second(challenger)
            return rate, time.perf_counter() - began
        except (MemoryError, tf.errors.ResourceExhaustedError) as short:
            raise TrialFailedError("it ran out of memory") from short

    def _prepare(self, dataset: Any) -> bool:
        """Fill the caches, and return whether an epoch is short.

        Measurements must not mix the first epoch, which fills caches, with later ones, which read them.
        """
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            return False
        longest = _LONGEST_EPOCH * self.seconds
        cached = any(trees.keeping(dataset.tree))
        filled = elements_of_epoch(dataset, dataset.tree) if cached else 0
        if filled is None:
            return False
        count = elements_within(dataset, longest)
        if count is not None and count / self.consumer.steps_per_second(dataset, self.seconds) <= longest:
            return True
        endless = self.consumer.endless(dataset)
        if cached and endless is not dataset:
            # The caches of a dataset know nothing of datasets derived from it, so fill those, too.
            elements_within(endless.take(filled), math.inf)
        return False
