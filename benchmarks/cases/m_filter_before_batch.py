"""Rows in memory of which a filter keeps some, before they are batched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_ROWS = 150_000
_COLUMNS = 8
_BATCH = 256
_FILTERED = 4096
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, rows: int = _ROWS) -> tuple[Any, Any]:
    """Return features and labels; a label below 0 means that it is not known."""
    draw = np.random.default_rng(0)
    return draw.normal(size=(rows, _COLUMNS)).astype(np.float32), draw.integers(-1, 3, size=rows)


def naive(arrays: tuple[Any, Any]) -> Any:
    """Look at each row by itself."""
    return tf.data.Dataset.from_tensor_slices(arrays).filter(_is_labelled).batch(_BATCH)


def expert(arrays: tuple[Any, Any]) -> Any:
    """Do the same with a parallel batch and a prefetch: no step is a map, and the rows are in memory already."""
    rows = tf.data.Dataset.from_tensor_slices(arrays).filter(_is_labelled)
    return rows.batch(_BATCH, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best(arrays: tuple[Any, Any]) -> Any:
    """Filter thousands of rows at once, then cut them into batches, and keep these: they are as small as the rows."""
    rows = tf.data.Dataset.from_tensor_slices(arrays).batch(_FILTERED)
    return rows.map(_keep_labelled, num_parallel_calls=_AUTOTUNE).rebatch(_BATCH).cache().prefetch(_AUTOTUNE)


def _is_labelled(features: Any, label: Any) -> Any:
    """Return whether the label is known."""
    return label >= 0


def _keep_labelled(features: Any, labels: Any) -> Any:
    """Return the rows whose label is known."""
    kept = _is_labelled(features, labels)
    return tf.boolean_mask(features, kept), tf.boolean_mask(labels, kept)


CASES: tuple[Case, ...] = (
    Case(
        letter="m",
        name="filter_before_batch",
        title="rows in memory, filtered one by one",
        unit="rows",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda arrays: int((arrays[1] >= 0).sum()),
    ),
)
