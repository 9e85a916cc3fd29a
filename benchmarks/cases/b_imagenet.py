"""ImageNet's usual shape: TFRecord files of JPEGs, resized to 256x256 and cropped at random to 224x224."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from autopipe.examples.photographs import jpeg_files, make_photographs
from benchmarks.cases._base import Case

_COUNT = 1200
_SHARDS = 8
_RESIZED = 256
_CROPPED = (224, 224, 3)
_BATCH = 40
_SHUFFLED = 500
_AUTOTUNE = tf.data.AUTOTUNE
_FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def make_data(folder: Path, count: int = _COUNT) -> list[str]:
    """Write shards of JPEGs with labels; return their names."""
    photographs = folder / "photographs"
    make_photographs(photographs, count)
    paths = jpeg_files(photographs)
    labels = {name: label for label, name in enumerate(sorted({path.parent.name for path in paths}))}
    shards = [str(folder / f"train-{number:05}-of-{_SHARDS:05}") for number in range(_SHARDS)]
    for number, shard in enumerate(shards):
        with tf.io.TFRecordWriter(shard) as writer:
            for path in paths[number::_SHARDS]:
                writer.write(_to_record(path.read_bytes(), labels[path.parent.name]))
    shutil.rmtree(photographs)
    return shards


def naive(shards: list[str]) -> Any:
    """Do one step per map, one file after another."""
    records = tf.data.TFRecordDataset(shards).shuffle(_SHUFFLED)
    return records.map(_parse).map(_decode).map(_resize).map(_crop).batch(_BATCH)


def expert(shards: list[str]) -> Any:
    """Follow the guide: read files in parallel, cache before what is random, then shuffle."""
    files = tf.data.Dataset.from_tensor_slices(shards)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=_AUTOTUNE)
    images = records.map(_parse, _AUTOTUNE).map(_decode, _AUTOTUNE).map(_resize, _AUTOTUNE).cache()
    return images.shuffle(_SHUFFLED).map(_crop, _AUTOTUNE).batch(_BATCH).prefetch(_AUTOTUNE)


def best(shards: list[str]) -> Any:
    """Cache and crop bytes, and make floats of a whole batch at once."""
    records = tf.data.TFRecordDataset(shards, num_parallel_reads=4)
    images = records.map(_load_bytes, _AUTOTUNE, deterministic=False).cache()
    crops = images.shuffle(_SHUFFLED).map(_crop_bytes, _AUTOTUNE).batch(_BATCH)
    return crops.map(_scale, _AUTOTUNE).prefetch(_AUTOTUNE)


def _to_record(content: bytes, label: int) -> bytes:
    """Return a serialized example."""
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[content])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _parse(record: Any) -> Any:
    """Take an example apart."""
    features = tf.io.parse_single_example(record, _FEATURES)
    return features["image/encoded"], features["image/class/label"]


def _decode(content: Any, label: Any) -> Any:
    """Decode a JPEG."""
    return tf.io.decode_jpeg(content, channels=3), label


def _resize(image: Any, label: Any) -> Any:
    """Make an image square and scale it to [0, 1]."""
    return tf.image.resize(image, (_RESIZED, _RESIZED)) / 255.0, label


def _crop(image: Any, label: Any) -> Any:
    """Cut out a random part."""
    return tf.image.random_crop(image, _CROPPED), label


def _load_bytes(record: Any) -> Any:
    """Parse, decode and resize to bytes; rounding moves a value by half of 1/255 at the most."""
    image, label = _decode(*_parse(record))
    return tf.cast(tf.round(tf.image.resize(image, (_RESIZED, _RESIZED))), tf.uint8), label


def _crop_bytes(image: Any, label: Any) -> Any:
    """Cut out a random part of an image whose size is known."""
    top, left = tf.unstack(tf.random.uniform([2], 0, _RESIZED - _CROPPED[0] + 1, tf.int32))
    return tf.slice(image, [top, left, 0], _CROPPED), label


def _scale(images: Any, labels: Any) -> Any:
    """Scale bytes to [0, 1]."""
    return tf.cast(images, tf.float32) / 255.0, labels


CASES: tuple[Case, ...] = (
    Case(
        letter="b",
        name="imagenet",
        title="TFRecord files of JPEGs, resized and cropped",
        unit="images",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda shards: sum(1 for _ in tf.data.TFRecordDataset(shards)),
    ),
)
