"""TFRecord files of small examples: ten scalars and a vector each, as for a recommender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_RECORDS = 40_000
_FILES = 4
_VECTOR = 32
_BATCH = 128
_SHUFFLED = 1000
_PIECE = 2**20
_ALL = 10**9
_AUTOTUNE = tf.data.AUTOTUNE
_FLOATS = tuple(f"measure_{number}" for number in range(5))
_INTEGERS = tuple(f"category_{number}" for number in range(4))
_FEATURES: dict[str, Any] = {
    **{name: tf.io.FixedLenFeature([], tf.float32) for name in _FLOATS},
    **{name: tf.io.FixedLenFeature([], tf.int64) for name in (*_INTEGERS, "label")},
    "vector": tf.io.FixedLenFeature([_VECTOR], tf.float32),
}


def make_data(folder: Path, records: int = _RECORDS) -> list[str]:
    """Write the files; return their names."""
    draw = np.random.default_rng(0)
    floats = draw.normal(size=(records, len(_FLOATS))).tolist()
    integers = draw.integers(0, 1000, size=(records, len(_INTEGERS))).tolist()
    labels = draw.integers(0, 2, size=records).tolist()
    vectors = draw.normal(size=(records, _VECTOR)).tolist()
    rows = list(zip(floats, integers, labels, vectors, strict=True))
    files = [str(folder / f"{number}.tfrecord") for number in range(_FILES)]
    for number, file in enumerate(files):
        with tf.io.TFRecordWriter(file) as writer:
            for row in rows[number::_FILES]:
                writer.write(_to_record(*row))
    return files


def naive(files: list[str]) -> Any:
    """Parse every example, then shuffle and batch."""
    return tf.data.TFRecordDataset(files).map(_parse).shuffle(_SHUFFLED).batch(_BATCH)


def expert(files: list[str]) -> Any:
    """Follow the guide: read files in parallel, cache parsed examples, then shuffle."""
    names = tf.data.Dataset.from_tensor_slices(files)
    records = names.interleave(tf.data.TFRecordDataset, cycle_length=_FILES, num_parallel_calls=_AUTOTUNE)
    examples = records.map(_parse, num_parallel_calls=_AUTOTUNE).cache()
    return examples.shuffle(_SHUFFLED).batch(_BATCH).prefetch(_AUTOTUNE)


def expert_uncached(files: list[str]) -> Any:
    """Follow the guide, and cache nothing: read in parallel and parse a batch at once, with AUTOTUNE."""
    records = tf.data.TFRecordDataset(files, num_parallel_reads=_AUTOTUNE).shuffle(_SHUFFLED)
    return records.batch(_BATCH).map(_parse_batch, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best_uncached(files: list[str]) -> Any:
    """Read in large pieces, one file after the other: examples are so small that several readers cost more."""
    records = tf.data.TFRecordDataset(files, buffer_size=_PIECE).shuffle(_SHUFFLED)
    return records.batch(_BATCH).map(_parse_batch, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best(files: list[str]) -> Any:
    """Parse all records at once, then shuffle and batch numbers of rows, and gather a batch of them at once."""
    records = tf.data.TFRecordDataset(files, buffer_size=_PIECE)
    columns = tf.io.parse_example(records.batch(_ALL).get_single_element(), _FEATURES)

    def gather(rows: Any) -> Any:
        features = {name: tf.gather(column, rows) for name, column in columns.items()}
        return features, features.pop("label")

    numbers = tf.data.Dataset.range(len(columns["label"])).shuffle(_SHUFFLED).batch(_BATCH)
    return numbers.map(gather, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def _to_record(floats: list[float], integers: list[int], label: int, vector: list[float]) -> bytes:
    """Return a serialized example."""
    features = {name: _of_floats([value]) for name, value in zip(_FLOATS, floats, strict=True)}
    features |= {name: _of_integers([value]) for name, value in zip(_INTEGERS, integers, strict=True)}
    features |= {"label": _of_integers([label]), "vector": _of_floats(vector)}
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _of_floats(values: list[float]) -> Any:
    """Return a feature of floats."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _of_integers(values: list[int]) -> Any:
    """Return a feature of integers."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _parse(record: Any) -> Any:
    """Parse one example."""
    features = tf.io.parse_single_example(record, _FEATURES)
    return features, features.pop("label")


def _parse_batch(records: Any) -> Any:
    """Parse a batch of examples."""
    features = tf.io.parse_example(records, _FEATURES)
    return features, features.pop("label")


CASES: tuple[Case, ...] = (
    Case(
        letter="e",
        name="parse_example",
        title="TFRecord files of small examples",
        unit="examples",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda files: sum(1 for _ in tf.data.TFRecordDataset(files)),
        quick=True,
    ),
    Case(
        letter="e",
        name="parse_example_uncached",
        title="the same, where nothing may be cached",
        unit="examples",
        make_data=make_data,
        naive=naive,
        expert=expert_uncached,
        best=best_uncached,
        units_per_epoch=lambda files: sum(1 for _ in tf.data.TFRecordDataset(files)),
        # The records of a real job outgrow memory, so no variant caches.
        ram_budget=0,
    ),
)
