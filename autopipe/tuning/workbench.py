"""Where settings are compared: a consumer reads one after the other, in short turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from autopipe.pipeline import ir, trees
from autopipe.tuning.choices import Choice, Choices

if TYPE_CHECKING:
    from autopipe.tuning.consumer import Consumer

__all__ = ["LocalWorkbench", "TrialFailedError", "Workbench"]

_ENDLESS = -1


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

    Attributes:
        choices: the pipelines.
        consumer: what reads them.
        seconds: the length of a turn.
    """

    choices: Choices
    consumer: Consumer
    seconds: float
    _filled: set[str] = field(default_factory=set, init=False, repr=False)

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
        self._fill_caches(choice.structure, dataset)
        return self.consumer.steps_per_second(dataset, self.seconds)

    def _challenge(self, challenger: Choice) -> float:
        import tensorflow as tf

        try:
            return self.steps_per_second(challenger)
        except (MemoryError, tf.errors.ResourceExhaustedError) as short:
            raise TrialFailedError("it ran out of memory") from short

    def _fill_caches(self, structure: str, dataset: Any) -> None:
        """Read an epoch once: what is held in memory from the second one on says nothing about the first."""
        if structure in self._filled:
            return
        self._filled.add(structure)
        caches = any(isinstance(node, ir.Cache) for node in trees.walk(dataset.tree))
        if caches and int(dataset.cardinality()) != _ENDLESS:
            for _ in dataset:
                pass
