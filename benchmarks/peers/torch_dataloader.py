"""PyTorch's DataLoader with Pillow, a worker for each CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers._base import BATCH, SIZE, Peer

__all__ = ["PEER"]


def _make(folder: Path, augment: bool) -> Callable[[], Iterable[Any]]:
    import torch

    files = sorted(folder.glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in files})
    images = _Images(files, classes, augment)
    loader = torch.utils.data.DataLoader(
        images, batch_size=BATCH, shuffle=True, num_workers=os.cpu_count() or 1, persistent_workers=True
    )
    return lambda: loader


class _Images:
    """A map-style dataset, as the tutorial of torch.utils.data has it."""

    def __init__(self, files: list[Path], classes: list[str], augment: bool) -> None:
        self.files, self.classes, self.augment = files, classes, augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        import torch
        from PIL import Image

        path = self.files[index]
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize(SIZE, Image.Resampling.BILINEAR), np.float32) / 255
        if self.augment:
            pixels = pixels[:, ::-1] if torch.rand(()) < 0.5 else pixels
            pixels = pixels + (float(torch.rand(())) - 0.5) * 0.2
        return torch.from_numpy(np.ascontiguousarray(pixels)), self.classes.index(path.parent.name)


PEER = Peer(
    name="PyTorch DataLoader",
    package="torch",
    install="pip install torch pillow",
    make=_make,
    note="the resize antialiases: 2/255 away on average",
)
