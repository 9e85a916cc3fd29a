"""What each stage of a pipeline costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from autopipe.figures import rate_text
from autopipe.pipeline import ir
from autopipe.planning.costs.table import costs_table
from autopipe.planning.memory.machine import Machine
from autopipe.printing import as_text

__all__ = ["Profile", "StageProfile", "Stretch"]


@dataclass(frozen=True)
class StageProfile:
    """What one stage costs.

    Attributes:
        node: the stage.
        stage: the stage as text, such as ``map(load, calls=AUTOTUNE)``.
        line: where the user wrote it, as ``train.py:12``, if that is known.
        elements: how many elements it gave.
        seconds_per_element: time spent in the stage itself for each element that leaves the *pipeline*, summed over
            its threads. It includes waiting for storage or Python's GIL, but not for earlier stages.
        share: that time as a share of all stages', 0 to 1.
        bytes_in: bytes it takes for each element that leaves the pipeline.
        bytes_per_element: bytes of one element that it gives.
        bytes_error: the standard error of that figure.
        buffered_bytes: bytes it held at the last look; for a shuffle that :func:`autopipe.profile` read, with a full
            buffer.
        parallelism: calls that may run at once; ``None`` if they run one after the other.
        ahead: whether it works in its own threads, ahead of its consumer.
        fused_with: the stage that TensorFlow fused with it, whose work is counted here.
        place: the stage whose elements are counted: the batch, if it was fused with a map.
    """

    node: ir.Node = field(repr=False, compare=False)
    place: ir.Node = field(repr=False, compare=False)
    stage: str
    line: str | None
    elements: int
    seconds_per_element: float
    share: float
    bytes_in: float
    bytes_per_element: float
    bytes_error: float
    buffered_bytes: int
    parallelism: int | None
    ahead: bool
    fused_with: str | None = None


@dataclass(frozen=True)
class Stretch:
    """A stretch of reading a pipeline as fast as it goes, or as its consumer does.

    Attributes:
        elements: how many were read.
        seconds: wall time.
        cpu_seconds: CPU time of the process.
    """

    elements: int
    seconds: float
    cpu_seconds: float

    @classmethod
    def together(cls, stretches: Iterable[Stretch]) -> Stretch:
        """Return several stretches as one.

        >>> Stretch.together([Stretch(2, 0.25, 1.0), Stretch(3, 0.5, 0.0)])
        Stretch(elements=5, seconds=0.75, cpu_seconds=1.0)
        """
        each = list(stretches)
        return cls(sum(s.elements for s in each), sum(s.seconds for s in each), sum(s.cpu_seconds for s in each))

    @property
    def rate(self) -> float:
        """Elements per second."""
        return self.elements / self.seconds if self.seconds else 0.0

    @property
    def cores(self) -> float:
        """How many cores were busy, on average."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, repr=False)
class Profile:
    """What a pipeline costs, stage by stage, from its source to its end.

    Attributes:
        stages: the cost of each stage. Stages that TensorFlow drops are left out.
        stretch: what was read, how fast, and with how much CPU.
        epochs: epochs read to their end.
        filling: whether only a first epoch was read, in which a cache fills; later ones are faster.
        process_bytes: resident memory of the process at the end.
        machine: the machine it was measured on.
        batch: how many examples an element holds; ``None`` if it is not a batch.
        failed: how many elements raised, and were skipped, in all epochs that were read; reading the pipeline yourself
            ends at the first.
        failure: the error of the first of them.
        untuned: whether its author has turned AUTOTUNE off. It was on here, since TensorFlow counts nothing without it.
    """

    stages: tuple[StageProfile, ...]
    stretch: Stretch
    epochs: int
    filling: bool
    process_bytes: int
    machine: Machine
    batch: int | None = None
    failed: int = 0
    failure: str = ""
    untuned: bool = False

    def in_words(self, rate: float) -> str:
        """Return a rate in words that say what an element is."""
        return (
            f"{rate_text(rate)} elements/s" if self.batch is None else f"{rate_text(rate)} batches/s of {self.batch:,}"
        )

    def of(self, node: ir.Node) -> StageProfile | None:
        """Return the cost of a stage; ``None`` if TensorFlow dropped it."""
        return next((each for each in self.stages if each.node == node), None)

    def __repr__(self) -> str:
        return as_text(self, width=140)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield costs_table(self, options.max_width)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain values, in seconds and bytes."""
        names = [name for name in StageProfile.__dataclass_fields__ if name not in ("node", "place")]
        return {
            "elements_per_second": self.stretch.rate,
            "examples_in_element": self.batch,
            "cores_busy": self.stretch.cores,
            "cores": self.machine.cores,
            "epochs": self.epochs,
            "filling": self.filling,
            "process_bytes": self.process_bytes,
            "failed": self.failed,
            "failure": self.failure,
            "untuned": self.untuned,
            "stages": [{name: getattr(each, name) for name in names} for each in self.stages],
        }
