"""Sliding windows over a series in memory, as the guides to tf.data make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_STEPS = 20_000
_FEATURES = 4
_WINDOW = 32
_BATCH = 64
_SHUFFLED = 500
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, steps: int = _STEPS) -> Any:
    """Return a random walk."""
    return np.random.default_rng(0).normal(size=(steps, _FEATURES)).cumsum(axis=0).astype(np.float32)


def naive(series: Any) -> Any:
    """Flatten a dataset of datasets."""
    return _windows(series).shuffle(_SHUFFLED).batch(_BATCH)


def expert(series: Any) -> Any:
    """Do the same with a prefetch: no step is a map, and the series is in memory already."""
    return _windows(series).shuffle(_SHUFFLED).batch(_BATCH, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best(series: Any) -> Any:
    """Shuffle the starts of windows, and gather a batch of them at once."""
    within = tf.range(_WINDOW, dtype=tf.int64)
    values = tf.constant(series)

    def gather(starts: Any) -> Any:
        return tf.gather(values, starts[:, tf.newaxis] + within)

    starts = tf.data.Dataset.range(_count(series)).shuffle(_SHUFFLED).batch(_BATCH)
    return starts.map(gather, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def _windows(series: Any) -> Any:
    """Return all windows, in order."""
    nested = tf.data.Dataset.from_tensor_slices(series).window(_WINDOW, shift=1, drop_remainder=True)
    return nested.flat_map(lambda window: window.batch(_WINDOW, drop_remainder=True))


def _count(series: Any) -> int:
    """Return how many windows fit."""
    return len(series) - _WINDOW + 1


CASES: tuple[Case, ...] = (
    Case(
        letter="h",
        name="windows",
        title="sliding windows over a series in memory",
        unit="windows",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=_count,
        quick=True,
    ),
)
