"""NVIDIA's DALI on the CPU, reading the records of the ImageNet job."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers import _dali
from benchmarks.peers._base import Peer

__all__ = ["PEER"]

_BATCH = 40
_RESIZED = 256
_CROPPED = 224
_SHUFFLED = 500
# In a TFRecord file: the length of a record and its checksum before it, and a checksum after it.
_HEADER, _FOOTER = 12, 4


def _make(shards: list[str], augment: bool) -> Callable[[], Iterable[Any]]:
    from nvidia.dali import fn, pipeline_def, tfrecord, types

    features = {
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
    }
    places = [_index(Path(shard)) for shard in shards]

    @pipeline_def(batch_size=_BATCH, num_threads=os.cpu_count() or 1, device_id=None)
    def records() -> Any:
        read = fn.readers.tfrecord(
            path=shards,
            index_path=places,
            features=features,
            random_shuffle=True,
            initial_fill=_SHUFFLED,
            pad_last_batch=True,
            name="records",
        )
        images = fn.decoders.image(read["image/encoded"], device="cpu", output_type=types.RGB)
        images = fn.resize(
            images, size=(_RESIZED, _RESIZED), interp_type=types.INTERP_LINEAR, antialias=False, dtype=types.FLOAT
        )
        corner = [fn.random.uniform(range=(0.0, 1.0)) for _ in range(2)]
        images = fn.crop(images, crop=(_CROPPED, _CROPPED), crop_pos_y=corner[0], crop_pos_x=corner[1])
        return images / 255, read["image/class/label"]

    return _dali.epochs_of(records(), "records", _BATCH)


def _index(shard: Path) -> str:
    """Write where each record of a file begins and how long it is, as DALI wants it; return the name of that file."""
    content, place, lines = shard.read_bytes(), 0, []
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        size = _HEADER + length + _FOOTER
        lines.append(f"{place} {size}\n")
        place += size
    index = shard.with_suffix(".index")
    index.write_text("".join(lines))
    return str(index)


PEER = Peer(
    name=_dali.NAME,
    package=_dali.PACKAGE,
    install=_dali.INSTALL,
    make=_make,
    note=_dali.NOTE,
    letter="b",
)
