"""NVIDIA's DALI on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers import _dali
from benchmarks.peers._base import BATCH, SIZE, Peer

__all__ = ["PEER"]


def _make(folder: Path, augment: bool) -> Callable[[], Iterable[Any]]:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=os.cpu_count() or 1, device_id=None)
    def flowers() -> Any:
        contents, labels = fn.readers.file(
            file_root=str(folder), file_filters=["*.jpg"], shuffle_after_epoch=True, pad_last_batch=True, name="files"
        )
        images = fn.decoders.image(contents, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=SIZE, interp_type=types.INTERP_LINEAR, antialias=False, dtype=types.FLOAT)
        images = images / 255
        if augment:
            images = fn.flip(images, horizontal=fn.random.coin_flip()) + fn.random.uniform(range=(-0.1, 0.1))
        return images, labels

    return _dali.epochs_of(flowers(), "files", BATCH)


PEER = Peer(
    name=_dali.NAME,
    package=_dali.PACKAGE,
    install=_dali.INSTALL,
    make=_make,
    note=_dali.NOTE,
)
