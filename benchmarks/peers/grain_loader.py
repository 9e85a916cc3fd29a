"""Grain's MapDataset with threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.peers._base import BATCH, SIZE, Peer

__all__ = ["PEER"]

_THREADS_OF_CPU = 2


def _make(folder: Path, augment: bool) -> Callable[[], Iterable[Any]]:
    import grain
    import numpy as np
    from PIL import Image

    files = [str(path) for path in sorted(folder.glob("*/*.jpg"))]
    classes = sorted({Path(name).parent.name for name in files})
    seeds = count()

    def load(name: str) -> Any:
        with Image.open(name) as image:
            pixels = np.asarray(image.convert("RGB").resize(SIZE, Image.Resampling.BILINEAR), np.float32) / 255
        return {"image": pixels, "label": classes.index(Path(name).parent.name)}

    def change(element: Any, generator: Any) -> Any:
        pixels = element["image"]
        pixels = pixels[:, ::-1] if generator.random() < 0.5 else pixels
        return element | {"image": pixels + (generator.random(dtype=np.float32) - np.float32(0.5)) * np.float32(0.2)}

    def epoch() -> Iterable[Any]:
        # One seed draws the same order and the same changes in every epoch.
        dataset = grain.MapDataset.source(files).seed(next(seeds)).shuffle().map(load)
        if augment:
            dataset = dataset.random_map(change)
        return dataset.batch(BATCH).to_iter_dataset(
            grain.ReadOptions(num_threads=_THREADS_OF_CPU * (os.cpu_count() or 1))
        )

    return epoch


PEER = Peer(
    name="Grain",
    package="grain",
    install="pip install grain pillow",
    make=_make,
    note="the resize antialiases: 2/255 away on average",
)
