"""The artificial dataset of TensorFlow's performance guide: files that are slow to open, steps that only wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

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
    """How many files there are, and how many samples each holds."""

    count: int
    samples: int = 100


def make_data(folder: Path, files: int = 4) -> Files:
    """Return the sizes: the guide's files are made up while they are read."""
    return Files(files)


def naive(files: Files) -> Any:
    """Read one file after another, and handle one element after another."""
    samples = tf.data.Dataset.range(files.count).flat_map(lambda file: _open(file, files.samples))
    return samples.map(_consume_time).map(_consume_memory).batch(_BATCH, drop_remainder=True)


def expert(files: Files) -> Any:
    """Follow the guide: read in parallel, work on batches, cache before what takes memory."""
    samples = tf.data.Dataset.range(files.count).interleave(
        lambda file: _open(file, files.samples), num_parallel_calls=_AUTOTUNE
    )
    batches = samples.batch(_BATCH, drop_remainder=True).map(_consume_time_of_batch, _AUTOTUNE).cache()
    return batches.map(_consume_memory_of_batch, _AUTOTUNE).prefetch(_AUTOTUNE)


def best(files: Files) -> Any:
    """Read all files at once, with more threads than cores: a thread that waits needs none."""
    samples = tf.data.Dataset.range(files.count).interleave(
        lambda file: _open(file, files.samples), cycle_length=files.count, num_parallel_calls=files.count
    )
    batches = samples.batch(_BATCH, drop_remainder=True).map(_consume_time_of_batch, 16).cache()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 16
    return batches.map(_consume_memory_of_batch, 16).prefetch(_AUTOTUNE).with_options(options)


def _open(file: Any, samples: int) -> Any:
    """Return the samples of a file."""
    signature = tf.TensorSpec((1,), tf.int64)
    return tf.data.Dataset.from_generator(_read, output_signature=signature, args=(file, samples))


def _read(file: int, samples: int) -> Iterator[tuple[int]]:
    """Open a file and read it, which takes time and no CPU."""
    time.sleep(_OPEN_SECONDS)
    for sample in range(samples):
        time.sleep(_SAMPLE_SECONDS)
        yield (file * samples + sample,)


def _wait(values: Any, seconds: float) -> Any:
    """Return the values after a while."""

    def wait(values: Any) -> Any:
        time.sleep(seconds)
        return values

    waited = tf.py_function(wait, [values], values.dtype)
    return tf.ensure_shape(waited, values.shape)


def _consume_time(value: Any) -> Any:
    """Do something slow with one sample."""
    return _wait(value, _TIME_CONSUMING_SECONDS)


def _consume_memory(value: Any) -> Any:
    """Make one sample large."""
    return tf.repeat(_wait(value, _MEMORY_CONSUMING_SECONDS), _WIDTH, axis=-1)


def _consume_time_of_batch(values: Any) -> Any:
    """Do something slow with a batch; as in the guide, that takes as long as for each of its samples."""
    return _wait(values, _TIME_CONSUMING_SECONDS * _BATCH)


def _consume_memory_of_batch(values: Any) -> Any:
    """Make a batch large."""
    return tf.repeat(_wait(values, _MEMORY_CONSUMING_SECONDS * _BATCH), _WIDTH, axis=-1)


CASES: tuple[Case, ...] = (
    Case(
        letter="c",
        name="artificial",
        title="the guide's artificial dataset: generators and steps that wait",
        unit="samples",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda files: files.count * files.samples,
        quick=True,
    ),
)
