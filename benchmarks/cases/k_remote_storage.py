"""Objects in remote storage: each takes 20 ms to arrive, which costs no CPU, and is cheap to decode.

There is more of it than memory or disk could hold where this is done, so no variant caches.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_COUNT = 120
_SHAPE = (32, 32, 3)
_SECONDS = 0.02
_BATCH = 8
_CONNECTIONS = 64
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = _COUNT) -> Any:
    """Return the objects, an image each."""
    return np.random.default_rng(0).integers(0, 256, size=(count, *_SHAPE), dtype=np.uint8)


def naive(objects: Any) -> Any:
    """Fetch one object after another."""
    return tf.data.Dataset.range(len(objects)).map(_fetcher(objects)).map(_decode).batch(_BATCH)


def expert(objects: Any) -> Any:
    """Follow the guide: as many calls at once as AUTOTUNE sees fit."""
    contents = tf.data.Dataset.range(len(objects)).map(_fetcher(objects), num_parallel_calls=_AUTOTUNE)
    return contents.map(_decode, num_parallel_calls=_AUTOTUNE).batch(_BATCH).prefetch(_AUTOTUNE)


def best(objects: Any) -> Any:
    """Wait for many objects at once, on as many threads: the usual pool has one per core, whatever a map asks for."""
    contents = tf.data.Dataset.range(len(objects)).map(_fetcher(objects), num_parallel_calls=_CONNECTIONS)
    options = tf.data.Options()
    options.threading.private_threadpool_size = _CONNECTIONS
    return contents.batch(_BATCH).map(_decode_batch, _AUTOTUNE).prefetch(_AUTOTUNE).with_options(options)


def _fetcher(objects: Any) -> Any:
    """Return a map function that fetches the object of a number."""

    def read(number: int) -> bytes:
        time.sleep(_SECONDS)
        return bytes(objects[number].tobytes())

    def fetch(number: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(read, [number], tf.string), [])

    return fetch


def _decode(content: Any) -> Any:
    """Turn an object into an image."""
    return tf.cast(tf.reshape(tf.io.decode_raw(content, tf.uint8), _SHAPE), tf.float32) / 255.0


def _decode_batch(contents: Any) -> Any:
    """Turn objects into images."""
    return tf.cast(tf.reshape(tf.io.decode_raw(contents, tf.uint8), (-1, *_SHAPE)), tf.float32) / 255.0


CASES: tuple[Case, ...] = (
    Case(
        letter="k",
        name="remote_storage",
        title="objects that take 20 ms to arrive",
        unit="objects",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=len,
    ),
)
