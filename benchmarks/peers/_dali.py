"""What both jobs ask of NVIDIA's DALI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["INSTALL", "NAME", "NOTE", "PACKAGE", "epochs_of"]

NAME = "DALI (CPU)"
PACKAGE = "nvidia.dali"
INSTALL = "pip install nvidia-dali-cuda120"
NOTE = "another JPEG decoder: 1/255 away on average"


def epochs_of(pipeline: Any, reader: str, batch: int) -> Callable[[], Iterable[Any]]:
    """Build a pipeline, and return what reads an epoch of it.

    Args:
        pipeline: gives images and labels, in batches of equal size: its reader repeats an element to fill the last.
        reader: the name of that reader.
        batch: the elements of a batch.
    """
    pipeline.build()
    count = pipeline.reader_meta(reader)["epoch_size"]

    def epoch() -> Iterator[Any]:
        for start in range(0, count, batch):
            images, labels = (each.as_array() for each in pipeline.run())
            yield images[: count - start], labels[: count - start, 0]

    return epoch
