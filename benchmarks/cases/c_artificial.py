"""The artificial dataset of TensorFlow's performance guide: files that are slow to open, steps that only wait.

All of it is Python code, so autopipe leaves it as it was written; and once more with that code declared stateless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

import autopipe
from benchmarks.cases._base import Case

_BATCH = 50
_WIDTH = 1000
_OPEN_SECONDS = 0.03
_SAMPLE_SECONDS = 0.001
_TIME_CONSUMING_SECONDS = 0.001
_MEMORY_CONSUMING_SECONDS = 0.0001
_AUTOTUNE = tf.data.AUTOTUNE


@dataclass(frozen=True)
class Files:
    """How many files there are, how many samples each holds, and whether the code that reads them is declared."""

    count: int
    samples: int = 100
    declared: bool = False

    def python(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a Python function, declared stateless where all are."""
        return autopipe.stateless(function) if self.declared else function


def make_data(folder: Path, files: int = 4) -> Files:
    """Return the sizes: the guide's files are made up while they are read."""
    return Files(files)


def make_declared_data(folder: Path, files: int = 4) -> Files:
    """Return the same, to be read by code that is declared stateless."""
    return replace(make_data(folder, files), declared=True)


def naive(files: Files) -> Any:
    """Read one file after another, and handle one element after another."""
    samples = tf.data.Dataset.range(files.count).flat_map(partial(_open, files))
    samples = samples.map(partial(_consume_time, files)).map(partial(_consume_memory, files))
    return samples.batch(_BATCH, drop_remainder=True)


def expert(files: Files) -> Any:
    """Follow the guide: read in parallel, work on batches, cache before what takes memory."""
    samples = tf.data.Dataset.range(files.count).interleave(partial(_open, files), num_parallel_calls=_AUTOTUNE)
    batches = samples.batch(_BATCH, drop_remainder=True).map(partial(_consume_time_of_batch, files), _AUTOTUNE).cache()
    return batches.map(partial(_consume_memory_of_batch, files), _AUTOTUNE).prefetch(_AUTOTUNE)


def best(files: Files) -> Any:
    """Read all files at once, with more threads than cores, since a thread that waits needs none; cache all work."""
    samples = tf.data.Dataset.range(files.count).interleave(
        partial(_open, files), cycle_length=files.count, num_parallel_calls=files.count
    )
    batches = samples.batch(_BATCH, drop_remainder=True).map(partial(_consume_time_of_batch, files), 16)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 16
    worked = batches.map(partial(_consume_memory_of_batch, files), 16).cache()
    return worked.prefetch(_AUTOTUNE).with_options(options)


@tf.autograph.experimental.do_not_convert
def _open(files: Files, file: Any) -> Any:
    """Return the samples of a file."""

    def read(file: int) -> Iterator[tuple[int]]:
        """Open a file and read it, which takes time and no CPU."""
        time.sleep(_OPEN_SECONDS)
        for sample in range(files.samples):
            time.sleep(_SAMPLE_SECONDS)
            yield (file * files.samples + sample,)

    signature = tf.TensorSpec((1,), tf.int64)
    return tf.data.Dataset.from_generator(files.python(read), output_signature=signature, args=(file,))


def _wait(files: Files, values: Any, seconds: float) -> Any:
    """Return the values after a while."""

    def wait(values: Any) -> Any:
        time.sleep(seconds)
        return values

    waited = tf.py_function(files.python(wait), [values], values.dtype)
    return tf.ensure_shape(waited, values.shape)


def _consume_time(files: Files, value: Any) -> Any:
    """Do something slow with one sample."""
    return _wait(files, value, _TIME_CONSUMING_SECONDS)


def _consume_memory(files: Files, value: Any) -> Any:
    """Make one sample large."""
    return tf.repeat(_wait(files, value, _MEMORY_CONSUMING_SECONDS), _WIDTH, axis=-1)


def _consume_time_of_batch(files: Files, values: Any) -> Any:
    """Do something slow with a batch; as in the guide, that takes as long as for each of its samples."""
    return _wait(files, values, _TIME_CONSUMING_SECONDS * _BATCH)


def _consume_memory_of_batch(files: Files, values: Any) -> Any:
    """Make a batch large."""
    return tf.repeat(_wait(files, values, _MEMORY_CONSUMING_SECONDS * _BATCH), _WIDTH, axis=-1)


_CASE = Case(
    letter="c",
    name="artificial",
    title="the guide's artificial dataset: generators and steps that wait",
    unit="samples",
    make_data=make_data,
    naive=naive,
    expert=expert,
    best=best,
    units_per_epoch=lambda files: files.count * files.samples,
    left_as_written=True,
)
CASES: tuple[Case, ...] = (
    _CASE,
    replace(
        _CASE,
        name="artificial_declared",
        title="the same, its generator and its steps declared stateless",
        make_data=make_declared_data,
        quick=True,
        left_as_written=False,
    ),
)
