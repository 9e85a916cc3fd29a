"""Where settings are compared: a consumer reads one after the other, in short turns."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from autopipe.pipeline import ir, trees
from autopipe.tuning.choices import Choice, Choices

if TYPE_CHECKING:
    from autopipe.tuning.consumer import Consumer

__all__ = ["LocalWorkbench", "TrialFailedError", "Workbench"]

_ENDLESS = -1
# An epoch that takes so many turns is not short any more.
_LONGEST_EPOCH = 8


class TrialFailedError(Exception):
    """A setting could not be measured; the message says why. The search goes on."""


class Workbench(Protocol):
    """Compares settings."""

    def ratios(self, reference: Choice, challenger: Choice) -> Iterator[float]:
        """Yield, without end, how many times as many steps the consumer makes with one setting as with another.

        Raises:
            TrialFailedError: if the challenger cannot be measured.
        """
        ...


@dataclass(frozen=True)
class LocalWorkbench:
    """Compares settings in this process.

    Epochs that are short, as most are that come from memory, are read as wholes: what their start takes counts for
    much then.

    Attributes:
        choices: the pipelines.
        consumer: what reads them.
        seconds: the least length of a turn.
    """

    choices: Choices
    consumer: Consumer
    seconds: float
    _whole_epochs: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    def ratios(self, reference: Choice, challenger: Choice) -> Iterator[float]:
        """Compare each turn of the challenger with the turns of the reference before and after: machines drift."""
        before = self.steps_per_second(reference)
        while True:
            between = self._challenge(challenger)
            after = self.steps_per_second(reference)
            yield 2 * between / (before + after)
            before = after

    def steps_per_second(self, choice: Choice) -> float:
        """Let the consumer read for one turn."""
        dataset = self.choices.datasets[choice.structure]
        dataset.retune(choice.knobs)
        if choice.structure not in self._whole_epochs:
            self._whole_epochs[choice.structure] = self._prepare(dataset)
        return self.consumer.steps_per_second(dataset, self.seconds, whole_epochs=self._whole_epochs[choice.structure])

    def _challenge(self, challenger: Choice) -> float:
        import tensorflow as tf

        try:
            return self.steps_per_second(challenger)
        except (MemoryError, tf.errors.ResourceExhaustedError) as short:
            raise TrialFailedError("it ran out of memory") from short

    def _prepare(self, dataset: Any) -> bool:
        """Fill the caches, and return whether an epoch is short.

        What is held in memory from the second epoch on says nothing about the first.
        """
        if int(dataset.cardinality()) == _ENDLESS:
            return False
        longest = _LONGEST_EPOCH * self.seconds
        cached = any(isinstance(node, ir.Cache) for node in trees.walk(dataset.tree))
        filled = _count(dataset, math.inf) if cached else None
        count = _count(dataset, longest)
        if count is not None and count / self.consumer.steps_per_second(dataset, self.seconds) <= longest:
            return True
        endless = self.consumer.endless(dataset)
        if filled is not None and endless is not dataset:
            # Of what is derived from a dataset, its caches know nothing.
            _count(endless.take(filled), math.inf)
        return False


def _count(dataset: Any, seconds: float) -> int | None:
    """Return how many elements a dataset has; ``None`` if it takes longer than that to read them."""
    end = time.perf_counter() + seconds
    count = 0
    for _ in dataset:
        count += 1
        if time.perf_counter() > end:
            return None
    return count
