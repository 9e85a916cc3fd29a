"""Pipelines that need nothing any more: all variants are the same, and none may get slower."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case
from benchmarks.cases.a_flowers import BRIGHTNESS, SHUFFLED, count_files, load_bytes
from benchmarks.cases.a_flowers import make_data as make_images

_BATCH = 64
_CLASSES = 10
_COLUMNS = 16
_SHARDS = 4
_AUTOTUNE = tf.data.AUTOTUNE
_FEATURES = {
    "features": tf.io.FixedLenFeature([_COLUMNS], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def make_arrays(folder: Path, rows: int = 500_000) -> tuple[Any, Any]:
    """Return features and labels."""
    draw = np.random.default_rng(0)
    features = draw.uniform(0, 255, size=(rows, _COLUMNS)).astype(np.float32)
    return features, draw.integers(0, _CLASSES, size=rows)


def make_records(folder: Path, rows: int = 150_000) -> list[str]:
    """Write shards of examples; return their names."""
    features, labels = make_arrays(folder, rows)
    shards = [str(folder / f"{number}.tfrecord") for number in range(_SHARDS)]
    for number, shard in enumerate(shards):
        with tf.io.TFRecordWriter(shard) as writer:
            for row in range(number, rows, _SHARDS):
                writer.write(_to_record(features[row], int(labels[row])))
    return shards


def read_images(folder: Path) -> Any:
    """Cache bytes; augment and scale whole batches."""
    return load_bytes(folder).shuffle(SHUFFLED).batch(_BATCH).map(_augment, _AUTOTUNE).prefetch(_AUTOTUNE)


def read_arrays(arrays: tuple[Any, Any]) -> Any:
    """Batch first, and prepare whole batches."""
    rows = tf.data.Dataset.from_tensor_slices(arrays).shuffle(1000).batch(_BATCH)
    return rows.map(_prepare, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def read_records(shards: list[str]) -> Any:
    """Read files in parallel, and parse whole batches."""
    records = tf.data.Dataset.from_tensor_slices(shards).interleave(
        tf.data.TFRecordDataset, cycle_length=_SHARDS, block_length=64, num_parallel_calls=_AUTOTUNE
    )
    return records.shuffle(1000).batch(_BATCH).map(_parse, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def _augment(images: Any, labels: Any) -> Any:
    """Flip some images, scale all, and make each brighter or darker."""
    shift = tf.random.uniform((tf.shape(images)[0], 1, 1, 1), -BRIGHTNESS, BRIGHTNESS)
    return tf.cast(tf.image.random_flip_left_right(images), tf.float32) / 255.0 + shift, labels


def _prepare(features: Any, labels: Any) -> Any:
    """Scale the features and spread out the labels."""
    return features / 255.0, tf.one_hot(labels, _CLASSES)


def _parse(records: Any) -> Any:
    """Take a batch of examples apart."""
    rows = tf.io.parse_example(records, _FEATURES)
    return _prepare(rows["features"], rows["label"])


def _to_record(features: Any, label: int) -> bytes:
    """Return a serialized example."""
    row = {
        "features": tf.train.Feature(float_list=tf.train.FloatList(value=features)),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=row)).SerializeToString())


def _same(read: Any) -> Any:
    """Return a case whose variants are one function."""
    return partial(Case, letter="n", naive=read, expert=read, best=read)


CASES: tuple[Case, ...] = (
    _same(read_arrays)(
        name="expert_arrays",
        title="arrays in memory, prepared by the batch",
        unit="rows",
        make_data=make_arrays,
        units_per_epoch=lambda arrays: len(arrays[1]),
    ),
    _same(read_images)(
        name="expert_images",
        title="images cached as bytes, augmented by the batch",
        unit="images",
        make_data=make_images,
        units_per_epoch=count_files,
    ),
    _same(read_records)(
        name="expert_records",
        title="TFRecord files, parsed by the batch",
        unit="rows",
        make_data=make_records,
        units_per_epoch=lambda shards: sum(1 for _ in tf.data.TFRecordDataset(shards)),
    ),
)
