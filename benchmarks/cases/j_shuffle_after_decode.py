"""JPEG files whose decoded images go through the shuffle buffer: a common mistake, and AUTOTUNE leaves it in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.cases._base import Case
from benchmarks.cases.a_flowers import count_files
from benchmarks.cases.a_flowers import make_data as make_photographs

_COUNT = 1200
_SIDE = 224
_BATCH = 32
_SHUFFLED = 1000
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = _COUNT) -> Path:
    """Write JPEG files into class folders."""
    return make_photographs(folder, count)


def naive(folder: Path) -> Any:
    """Decode, then shuffle: the buffer holds 600 MB of floats and is filled before the first batch."""
    images = _list_files(folder).map(_decode).map(_resize)
    return images.shuffle(_SHUFFLED).batch(_BATCH)


def expert(folder: Path) -> Any:
    """Follow the guide: do all of it in parallel, and cache what is costly; what is shuffled is large all the same."""
    images = _list_files(folder).map(_decode, num_parallel_calls=_AUTOTUNE).map(_resize, num_parallel_calls=_AUTOTUNE)
    return images.cache().shuffle(_SHUFFLED).batch(_BATCH).prefetch(_AUTOTUNE)


def best(folder: Path) -> Any:
    """Load in one map and in any order; a shuffle of what is cached holds no copies."""
    images = _list_files(folder).map(_load, num_parallel_calls=_AUTOTUNE, deterministic=False).cache()
    return images.shuffle(_SHUFFLED).batch(_BATCH).prefetch(_AUTOTUNE)


def _list_files(folder: Path) -> Any:
    """Return the names of all files, in order."""
    return tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)


def _decode(path: Any) -> Any:
    """Read and decode a JPEG file."""
    return tf.io.decode_jpeg(tf.io.read_file(path), channels=3)


def _resize(image: Any) -> Any:
    """Make an image square and scale it to [0, 1]."""
    return tf.image.resize(image, (_SIDE, _SIDE)) / 255.0


def _load(path: Any) -> Any:
    """Do all there is to do with one file."""
    return _resize(_decode(path))


CASES: tuple[Case, ...] = (
    Case(
        letter="j",
        name="shuffle_after_decode",
        title="JPEG files, shuffled once decoded",
        unit="images",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=count_files,
    ),
)
