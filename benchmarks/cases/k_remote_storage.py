"""Objects in remote storage: each takes 20 ms to arrive, which costs no CPU, and is cheap to decode.

There is more of it than memory or disk could hold where this is done, so no variant caches. Python code stands in for
the network, so autopipe leaves it as it was written; and once more with that code declared stateless.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import autopipe
from benchmarks.cases._base import Case

_COUNT = 120
_SHAPE = (32, 32, 3)
_SECONDS = 0.02
_BATCH = 8
_CONNECTIONS = 64
_AUTOTUNE = tf.data.AUTOTUNE


@dataclass(frozen=True)
class Storage:
    """The objects, an image each, and whether the code that fetches them is declared stateless."""

    images: Any
    declared: bool = False

    def __len__(self) -> int:
        return len(self.images)


def make_data(folder: Path, count: int = _COUNT) -> Storage:
    """Return the storage."""
    return Storage(np.random.default_rng(0).integers(0, 256, size=(count, *_SHAPE), dtype=np.uint8))


def make_declared_data(folder: Path, count: int = _COUNT) -> Storage:
    """Return the same, to be read by code that is declared stateless."""
    return replace(make_data(folder, count), declared=True)


def naive(storage: Storage) -> Any:
    """Fetch one object after another."""
    return tf.data.Dataset.range(len(storage)).map(_fetcher(storage)).map(_decode).batch(_BATCH)


def expert(storage: Storage) -> Any:
    """Follow the guide: as many calls at once as AUTOTUNE sees fit."""
    contents = tf.data.Dataset.range(len(storage)).map(_fetcher(storage), num_parallel_calls=_AUTOTUNE)
    return contents.map(_decode, num_parallel_calls=_AUTOTUNE).batch(_BATCH).prefetch(_AUTOTUNE)


def best(storage: Storage) -> Any:
    """Wait for many objects at once, on as many threads: the usual pool has one per core, whatever a map asks for."""
    contents = tf.data.Dataset.range(len(storage)).map(_fetcher(storage), num_parallel_calls=_CONNECTIONS)
    options = tf.data.Options()
    options.threading.private_threadpool_size = _CONNECTIONS
    return contents.batch(_BATCH).map(_decode_batch, _AUTOTUNE).prefetch(_AUTOTUNE).with_options(options)


def _fetcher(storage: Storage) -> Any:
    """Return a map function that fetches the object of a number."""

    def read(number: int) -> bytes:
        time.sleep(_SECONDS)
        return bytes(storage.images[number].tobytes())

    if storage.declared:
        autopipe.stateless(read)

    def fetch(number: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(read, [number], tf.string), [])

    return fetch


def _decode(content: Any) -> Any:
    """Turn an object into an image."""
    return tf.cast(tf.reshape(tf.io.decode_raw(content, tf.uint8), _SHAPE), tf.float32) / 255.0


def _decode_batch(contents: Any) -> Any:
    """Turn objects into images."""
    return tf.cast(tf.reshape(tf.io.decode_raw(contents, tf.uint8), (-1, *_SHAPE)), tf.float32) / 255.0


_CASE = Case(
    letter="k",
    name="remote_storage",
    title="objects that take 20 ms to arrive",
    unit="objects",
    make_data=make_data,
    naive=naive,
    expert=expert,
    best=best,
    units_per_epoch=len,
    ram_budget=0,
    left_as_written=True,
)
CASES: tuple[Case, ...] = (
    _CASE,
    replace(
        _CASE,
        name="remote_storage_declared",
        title="the same, fetched by code that is declared stateless",
        make_data=make_declared_data,
        left_as_written=False,
    ),
)
