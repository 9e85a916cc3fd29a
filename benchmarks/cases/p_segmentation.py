"""Photographs and masks: decoded and resized each in its way, flipped together at random, normalized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from autopipe.examples.photographs import jpeg_files, make_photographs
from benchmarks.cases._base import Case

_COUNT = 800
_SIDE = 160
_LEVELS = 3
_BATCH = 32
_SHUFFLED = 800
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = _COUNT) -> Path:
    """Write JPEG files, and beside each a PNG file of its mask: bright, middling or dark."""
    from PIL import Image

    make_photographs(folder, count)
    classes = [level * _LEVELS // 256 for level in range(256)]
    for path in jpeg_files(folder):
        with Image.open(path) as photograph:
            photograph.convert("L").point(classes).save(path.with_suffix(".png"), compress_level=1)
    return folder


def naive(folder: Path) -> Any:
    """Do one step per map, in the order they come to mind."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg")
    return files.map(_read).map(_decode).map(_resize).map(_flip).map(_normalize).batch(_BATCH)


def expert(folder: Path) -> Any:
    """Follow the guide: cache before what is random, then shuffle, then do the rest."""
    pairs = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    pairs = pairs.map(_read, _AUTOTUNE).map(_decode, _AUTOTUNE).map(_resize, _AUTOTUNE).cache().shuffle(_SHUFFLED)
    return pairs.map(_flip, _AUTOTUNE).map(_normalize, _AUTOTUNE).batch(_BATCH).prefetch(_AUTOTUNE)


def best(folder: Path) -> Any:
    """Cache bytes and flip them, a quarter the size of floats; normalize whole batches."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    pairs = files.map(_load_bytes, num_parallel_calls=_AUTOTUNE, deterministic=False).cache().shuffle(_SHUFFLED)
    return pairs.map(_flip, _AUTOTUNE).batch(_BATCH).map(_normalize, _AUTOTUNE).prefetch(_AUTOTUNE)


def _read(path: Any) -> Any:
    """Read a photograph and its mask."""
    return tf.io.read_file(path), tf.io.read_file(tf.strings.regex_replace(path, r"\.jpg$", ".png"))


def _decode(image: Any, mask: Any) -> Any:
    """Decode a JPEG and a PNG."""
    return tf.io.decode_jpeg(image, channels=3), tf.io.decode_png(mask, channels=1)


def _resize(image: Any, mask: Any) -> Any:
    """Make both small and square; there is nothing between two classes."""
    return tf.image.resize(image, (_SIDE, _SIDE)), tf.image.resize(mask, (_SIDE, _SIDE), method="nearest")


def _flip(image: Any, mask: Any) -> Any:
    """Mirror both, or none."""
    if tf.random.uniform([]) < 0.5:
        image, mask = tf.image.flip_left_right(image), tf.image.flip_left_right(mask)
    return image, mask


def _normalize(image: Any, mask: Any) -> Any:
    """Scale an image, or a batch, to [-1, 1]."""
    return tf.cast(image, tf.float32) / 127.5 - 1.0, mask


def _load_bytes(path: Any) -> Any:
    """Read, decode and resize to bytes; rounding moves a value by half of 1/255 at the most."""
    image, mask = _resize(*_decode(*_read(path)))
    return tf.cast(tf.round(image), tf.uint8), mask


CASES: tuple[Case, ...] = (
    Case(
        letter="p",
        name="segmentation",
        title="JPEG files and PNG masks, resized and flipped",
        unit="pairs",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda folder: len(jpeg_files(folder)),
    ),
)
