"""Signals augmented by a function in pure Python, of which only one call runs at a time, whatever a map asks for.

It is declared stateless: what is random comes from TensorFlow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import autopipe
from benchmarks.cases._base import Case

_COUNT = 10_000
_SAMPLES = 1024
_BATCH = 64
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = _COUNT) -> tuple[Any, Any]:
    """Return signals and labels."""
    draw = np.random.default_rng(0)
    return draw.normal(size=(count, _SAMPLES)).astype(np.float32), draw.integers(0, 10, size=count)


def naive(arrays: tuple[Any, Any]) -> Any:
    """Call the function for each signal."""
    return tf.data.Dataset.from_tensor_slices(arrays).map(_augment).batch(_BATCH)


def expert(arrays: tuple[Any, Any]) -> Any:
    """Follow the guide, without a cache: one after the map would freeze what is random in it."""
    signals = tf.data.Dataset.from_tensor_slices(arrays).map(_augment, num_parallel_calls=_AUTOTUNE)
    return signals.batch(_BATCH).prefetch(_AUTOTUNE)


def best(arrays: tuple[Any, Any]) -> Any:
    """Call NumPy once for four batches, and cut them apart after it."""
    signals = tf.data.Dataset.from_tensor_slices(arrays).batch(4 * _BATCH)
    return signals.map(_augment_batch, num_parallel_calls=_AUTOTUNE).rebatch(_BATCH).prefetch(_AUTOTUNE)


@autopipe.stateless
def smooth(signal: Any, weight: Any) -> Any:
    """Return a signal smoothed exponentially, in pure Python."""
    weight = float(weight)
    value, smoothed = 0.0, []
    for sample in signal.tolist():
        value = weight * sample + (1.0 - weight) * value
        smoothed.append(value)
    return np.array(smoothed, np.float32)


@autopipe.stateless
def smooth_batch(signals: Any, weights: Any) -> Any:
    """Return what ``smooth`` returns for each of many signals: one step of time after another, of all at once."""
    weights = weights.astype(np.float64)
    kept = 1.0 - weights
    fresh = np.ascontiguousarray((signals * weights[:, np.newaxis]).T)
    for step in range(1, len(fresh)):
        fresh[step] += kept * fresh[step - 1]
    return fresh.T.astype(np.float32)


def _augment(signal: Any, label: Any) -> Any:
    """Smooth a signal by a random amount."""
    weight = tf.random.uniform([], 0.2, 1.0)
    return tf.ensure_shape(tf.numpy_function(smooth, [signal, weight], tf.float32), (_SAMPLES,)), label


def _augment_batch(signals: Any, labels: Any) -> Any:
    """Smooth each signal by a random amount."""
    weights = tf.random.uniform(tf.shape(labels), 0.2, 1.0)
    smoothed = tf.numpy_function(smooth_batch, [signals, weights], tf.float32)
    return tf.ensure_shape(smoothed, (None, _SAMPLES)), labels


CASES: tuple[Case, ...] = (
    Case(
        letter="l",
        name="python_function",
        title="signals augmented in pure Python",
        unit="signals",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda arrays: len(arrays[1]),
    ),
)
