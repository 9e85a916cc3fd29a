"""Arrays in memory, as Keras' own examples have them: shuffle, a cheap map, batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_ROWS = 60_000
_COLUMNS = 64
_CLASSES = 10
_BATCH = 128
_SHUFFLED = 1000
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, rows: int = _ROWS) -> tuple[Any, Any]:
    """Return features and labels."""
    draw = np.random.default_rng(0)
    return draw.uniform(0, 255, size=(rows, _COLUMNS)).astype(np.float32), draw.integers(0, _CLASSES, size=rows)


def naive(arrays: tuple[Any, Any]) -> Any:
    """Prepare every row, then shuffle and batch."""
    return tf.data.Dataset.from_tensor_slices(arrays).map(_prepare).shuffle(_SHUFFLED).batch(_BATCH)


def expert(arrays: tuple[Any, Any]) -> Any:
    """Follow the guide: vectorize the cheap map, with AUTOTUNE; what is in memory already needs no cache."""
    rows = tf.data.Dataset.from_tensor_slices(arrays).shuffle(_SHUFFLED)
    return rows.batch(_BATCH).map(_prepare, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best(arrays: tuple[Any, Any]) -> Any:
    """Shuffle and batch the numbers of rows, and gather a batch of them at once."""
    features, labels = map(tf.constant, arrays)

    def gather(rows: Any) -> Any:
        return _prepare(tf.gather(features, rows), tf.gather(labels, rows))

    numbers = tf.data.Dataset.range(len(labels)).shuffle(_SHUFFLED).batch(_BATCH)
    return numbers.map(gather, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def _prepare(features: Any, labels: Any) -> Any:
    """Scale the features and spread out the labels, of one row or many."""
    return tf.cast(features, tf.float32) / 255.0, tf.one_hot(labels, _CLASSES)


CASES: tuple[Case, ...] = (
    Case(
        letter="f",
        name="arrays",
        title="arrays in memory and a cheap map",
        unit="rows",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda arrays: len(arrays[1]),
    ),
)
