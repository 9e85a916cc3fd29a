"""One function that does it all: read, decode, resize, augment at random and normalize."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.cases._base import Case
from benchmarks.cases.a_flowers import BRIGHTNESS, SHUFFLED, SIDE, count_files, flip, load_bytes, make_data

_BATCH = 32
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_AUTOTUNE = tf.data.AUTOTUNE


def naive(folder: Path) -> Any:
    """Write one map, as many a notebook does."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg")
    return files.map(_load).batch(_BATCH)


def expert(folder: Path) -> Any:
    """Follow the guide, without a cache: one after the map would freeze what is random in it."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg")
    return files.map(_load, num_parallel_calls=_AUTOTUNE).batch(_BATCH).prefetch(_AUTOTUNE)


def best(folder: Path) -> Any:
    """Cut the function in three: all before the first draw is cached, as bytes; the last is done with batches."""
    images = load_bytes(folder).shuffle(SHUFFLED).map(lambda image, label: flip(image), _AUTOTUNE)
    return images.batch(_BATCH).map(_finish, _AUTOTUNE).prefetch(_AUTOTUNE)


def _load(path: Any) -> Any:
    """Do all there is to do with one file."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (SIDE, SIDE)) / 255.0
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, BRIGHTNESS)
    return (image - tf.constant(_MEAN)) / tf.constant(_DEVIATION)


def _finish(images: Any) -> Any:
    """Normalize bytes and shift the brightness of each image, by one product and one sum of whole rows of pixels.

    Constants of three channels are spread over a row: TensorFlow is slow where it repeats so few numbers.
    """
    count = tf.shape(images)[0]
    deviation = tf.constant(_DEVIATION)
    shifts = tf.random.uniform([count, 1, 1], -BRIGHTNESS, BRIGHTNESS)
    offsets = tf.tile((shifts - tf.constant(_MEAN)) / deviation, [1, 1, SIDE])
    rows = tf.cast(tf.reshape(images, [count, SIDE, SIDE * 3]), tf.float32)
    return tf.reshape(rows * tf.tile(1 / (255.0 * deviation), [SIDE]) + offsets, [count, SIDE, SIDE, 3])


CASES: tuple[Case, ...] = (
    Case(
        letter="d",
        name="fused_map",
        title="JPEG files, all steps in one map",
        unit="images",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=count_files,
        quick=True,
    ),
)
