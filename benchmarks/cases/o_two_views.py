"""Contrastive learning: each photograph gives two views, cropped, flipped and brightened at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.cases._base import Case
from benchmarks.cases.a_flowers import BRIGHTNESS, SHUFFLED, count_files, flip
from benchmarks.cases.a_flowers import make_data as make_photographs

_COUNT = 600
_RESIZED = 160
_CROPPED = (128, 128, 3)
_BATCH = 32
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = _COUNT) -> Path:
    """Write JPEG files into class folders."""
    return make_photographs(folder, count)


def naive(folder: Path) -> Any:
    """Read the files twice, in one order: the seed is the same."""
    first, second = (tf.data.Dataset.list_files(f"{folder}/*/*.jpg", seed=0).map(_make_view) for _ in range(2))
    return tf.data.Dataset.zip(first, second).batch(_BATCH)


def expert(folder: Path) -> Any:
    """Follow the guide, without a cache: one after the map would freeze what is random in it."""
    files = [tf.data.Dataset.list_files(f"{folder}/*/*.jpg", seed=0) for _ in range(2)]
    first, second = (each.map(_make_view, num_parallel_calls=_AUTOTUNE) for each in files)
    return tf.data.Dataset.zip(first, second).batch(_BATCH).prefetch(_AUTOTUNE)


def best(folder: Path) -> Any:
    """Decode and resize once and for all, cache bytes, crop and flip them, and make floats of whole batches."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    images = files.map(_load_bytes, num_parallel_calls=_AUTOTUNE, deterministic=False).cache().shuffle(SHUFFLED)
    views = images.map(lambda image: (_crop(image), _crop(image)), num_parallel_calls=_AUTOTUNE).batch(_BATCH)
    return views.map(lambda *views: tuple(map(_brighten, views)), _AUTOTUNE).prefetch(_AUTOTUNE)


def _make_view(path: Any) -> Any:
    """Read, decode, resize, and augment."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (_RESIZED, _RESIZED)) / 255.0
    image = tf.image.random_flip_left_right(tf.image.random_crop(image, _CROPPED))
    return tf.image.random_brightness(image, BRIGHTNESS)


def _load_bytes(path: Any) -> Any:
    """Read, decode and resize to bytes; rounding moves a value by half of 1/255 at the most."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.cast(tf.round(tf.image.resize(image, (_RESIZED, _RESIZED))), tf.uint8)


def _crop(image: Any) -> Any:
    """Cut out a random part and flip half of them."""
    top, left = tf.unstack(tf.random.uniform([2], 0, _RESIZED - _CROPPED[0] + 1, tf.int32))
    return flip(tf.slice(image, [top, left, 0], _CROPPED))


def _brighten(images: Any) -> Any:
    """Scale a batch of bytes to [0, 1] and make each image brighter or darker."""
    shift = tf.random.uniform((tf.shape(images)[0], 1, 1, 1), -BRIGHTNESS, BRIGHTNESS)
    return tf.cast(images, tf.float32) / 255.0 + shift


CASES: tuple[Case, ...] = (
    Case(
        letter="o",
        name="two_views",
        title="JPEG files, two random views of each",
        unit="images",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=count_files,
    ),
)
