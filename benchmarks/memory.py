"""Peak memory of each variant over two epochs, each in a process of its own.

``python -m benchmarks.memory --case NAME --variant V --folder DIR`` is such a process; it prints one line of JSON.
"""

from __future__ import annotations

import gc
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from autopipe.planning.measuring.samples import bytes_of
from autopipe.quiet import load_tensorflow
from benchmarks.cases._base import Case, case_named
from benchmarks.children import load_data, run_child, save_data
from benchmarks.measuring import REFERENCE, VARIANTS, make_variant, reordered
from benchmarks.peak import PeakMeter, resident_bytes

__all__ = [
    "EPOCHS",
    "GIVING_BACK",
    "NOISE_BYTES",
    "MemoryResult",
    "MemoryRun",
    "VariantMemory",
    "measure_memory",
    "run_variant",
]

EPOCHS = 2
# Processes that do the same were seen to differ by so much: how far AUTOTUNE reads ahead depends on the time.
NOISE_BYTES = 20_000_000
# Without it, glibc keeps up to 64 MB of free memory for each of many threads: mallopt(3), M_TRIM_THRESHOLD.
GIVING_BACK = {"MALLOC_TRIM_THRESHOLD_": "131072"}


@dataclass(frozen=True)
class MemoryRun:
    """What one process held at the most, above what it held before the pipeline was made, in bytes.

    Attributes:
        preparing: while the pipeline was made; for autopipe that is ``optimize()``, which tries stages on samples.
        left: not the peak, but what was still held once it was made: the allocator keeps some of what is free.
        reading: while two epochs were read.
        stated_cache: what autopipe's own forecast says of the caches it added.
        loaded: before all that, what TensorFlow and autopipe took when they were first used.
        batch: what its first batch takes.
    """

    preparing: int
    left: int
    reading: int
    stated_cache: int
    loaded: int = 0
    batch: int = 0


@dataclass(frozen=True)
class VariantMemory:
    """The processes of one variant."""

    runs: tuple[MemoryRun, ...]

    @property
    def preparing(self) -> float:
        """The median peak while the pipeline was made, in bytes."""
        return statistics.median(run.preparing for run in self.runs)

    @property
    def left(self) -> float:
        """The median of what was held once it was made, in bytes."""
        return statistics.median(run.left for run in self.runs)

    @property
    def reading(self) -> float:
        """The median peak while it was read, in bytes."""
        return statistics.median(run.reading for run in self.runs)

    @property
    def reading_spread(self) -> int:
        """How far the peaks while it was read lie apart, in bytes."""
        peaks = [run.reading for run in self.runs]
        return max(peaks) - min(peaks)

    @property
    def loaded(self) -> float:
        """The median of what TensorFlow and autopipe took when they were first used, in bytes."""
        return statistics.median(run.loaded for run in self.runs)

    @property
    def batch(self) -> float:
        """What a batch takes, in bytes."""
        return statistics.median(run.batch for run in self.runs)

    @property
    def stated_cache(self) -> float:
        """The median forecast of the caches that autopipe added, in bytes."""
        return statistics.median(run.stated_cache for run in self.runs)


@dataclass(frozen=True)
class MemoryResult:
    """The peaks of every variant of one case; ``environment`` are variables that its processes ran with."""

    letter: str
    name: str
    variants: dict[str, VariantMemory]
    environment: dict[str, str] = field(default_factory=dict)

    def above_allowed(self, variant: str) -> float:
        """Return by how many bytes a peak is above the expert's and the stated cache together; it may be below 0."""
        ours = self.variants[variant]
        return ours.reading - self.variants[REFERENCE].reading - ours.stated_cache

    def above_written(self, variant: str) -> float:
        """Return by how many bytes a peak is above that of the pipeline it was made of and the stated cache together.

        The expert's peak holds a cache of its own, which the naive pipeline's does not.
        """
        ours = self.variants[variant]
        return ours.reading - self.variants[_made_of(variant)].reading - ours.stated_cache

    def is_above(self, variant: str) -> bool:
        """Return whether the former is more than processes of the same variant differ by."""
        return self.above_allowed(variant) > self._noise(variant, REFERENCE)

    def is_above_written(self, variant: str) -> bool:
        """Return whether the latter is."""
        return self.above_written(variant) > self._noise(variant, _made_of(variant))

    def _noise(self, *variants: str) -> float:
        return max(sum(self.variants[each].reading_spread for each in variants), NOISE_BYTES)


def _made_of(variant: str) -> str:
    return variant.partition("(")[2].rstrip(")")


def measure_memory(
    case: Case,
    folder: Path,
    *,
    repeats: int,
    on_run: Callable[[str], None] = lambda variant: None,
) -> MemoryResult:
    """Run every variant of a case in fresh processes, one after another.

    Args:
        case: one of ``all_cases()``: the processes find it by its name. Its data is made here, in ``folder``.
        folder: an empty folder.
        repeats: processes for each variant.
        on_run: told of the variant before each process.
    """
    save_data(case, folder)
    runs: dict[str, list[MemoryRun]] = {variant: [] for variant in VARIANTS}
    for number in range(repeats):
        for variant in reordered(VARIANTS, number):
            on_run(variant)
            options = {"case": case.name, "variant": variant, "folder": folder}
            figures = run_child("benchmarks.memory", GIVING_BACK, **options)
            runs[variant].append(MemoryRun(**figures))
    variants = {variant: VariantMemory(tuple(runs[variant])) for variant in VARIANTS}
    return MemoryResult(case.letter, case.name, variants, GIVING_BACK)


def run_variant(case: Case, variant: str, data: Any) -> MemoryRun:
    """Make a pipeline and read it in this process."""
    at_first = resident_bytes()
    _use_tensorflow()
    gc.collect()
    before = resident_bytes()
    with PeakMeter() as preparing:
        dataset = make_variant(case, variant, data, tuning_seconds=0.0)
        gc.collect()
    left = resident_bytes()
    with PeakMeter() as reading:
        for _ in range(EPOCHS):
            for _ in dataset:
                pass
    stated = dataset.explain().rewriting.new_cache_bytes if hasattr(dataset, "explain") else 0
    # Other threads may take some more between the two.
    peak = max(preparing.peak_bytes, left)
    above = (max(each - before, 0) for each in (peak, left, reading.peak_bytes))
    return MemoryRun(*above, stated, before - at_first, bytes_of(next(iter(dataset))))


def _use_tensorflow() -> None:
    """Run a small pipeline through autopipe, and XLA: what they load once is not the memory of a case."""
    import tensorflow as tf

    import autopipe

    tf.function(tf.math.sin, jit_compile=True)(tf.zeros([2]))
    numbers = tf.data.Dataset.range(64).map(lambda x: x + 1).shuffle(8).batch(4)
    for dataset in (numbers, autopipe.optimize(numbers)):
        for _ in dataset:
            pass


def main(
    case: Annotated[str, typer.Option(help="The name of a case.")],
    variant: Annotated[str, typer.Option(help="Who wrote it: naive, expert, best, autopipe(naive), ...")],
    folder: Annotated[Path, typer.Option(help="Where the data of the case has been put.")],
) -> None:
    """Print the peaks of one variant of a case, as JSON."""
    load_tensorflow()
    print(json.dumps(asdict(run_variant(case_named(case), variant, load_data(folder)))))


if __name__ == "__main__":
    typer.run(main)
