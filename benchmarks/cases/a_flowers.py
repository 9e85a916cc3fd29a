"""The flower job of the tf.data talk of 2019: photographs in class folders, without and with augmentation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from autopipe.examples.photographs import jpeg_files, make_photographs
from benchmarks.cases._base import Case

SIDE = 192
BRIGHTNESS = 0.1
SHUFFLED = 2000
CLASSES = ("astronaut", "cat", "coffee", "motorcycle", "rocket")
_BATCH = 32
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, count: int = 1600) -> Path:
    """Write JPEG files into class folders."""
    make_photographs(folder, count)
    return folder


def count_files(folder: Path) -> int:
    """Return how many photographs there are."""
    return len(jpeg_files(folder))


def naive(folder: Path, augmented: bool = False) -> Any:
    """Do one step per map, in the order they come to mind."""
    images = tf.data.Dataset.list_files(f"{folder}/*/*.jpg")
    images = images.map(read).map(decode).map(resize).map(_scale)
    return (images.map(_augment) if augmented else images).batch(_BATCH)


def expert(folder: Path, augmented: bool = False) -> Any:
    """Follow the guide: cache what is costly and never changes, then shuffle, then do the rest."""
    images = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    images = images.map(read, _AUTOTUNE).map(decode, _AUTOTUNE).map(resize, _AUTOTUNE)
    if augmented:
        images = images.cache().shuffle(SHUFFLED).map(_scale, _AUTOTUNE).map(_augment, _AUTOTUNE)
    else:
        images = images.map(_scale, _AUTOTUNE).cache().shuffle(SHUFFLED)
    return images.batch(_BATCH).prefetch(_AUTOTUNE)


def best(folder: Path) -> Any:
    """Load in one map and in any order; batches are copied in parallel."""
    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    images = files.map(lambda path: _scale(*load(path)), _AUTOTUNE, deterministic=False).cache()
    return images.shuffle(SHUFFLED).batch(_BATCH, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def best_augmented(folder: Path) -> Any:
    """Cache bytes, a quarter the size of floats, and flip them before they become floats."""
    images = load_bytes(folder).shuffle(SHUFFLED).map(_finish, _AUTOTUNE)
    return images.batch(_BATCH).prefetch(_AUTOTUNE)


def read(path: Any) -> Any:
    """Read a file and look up the class it is in."""
    return tf.io.read_file(path), tf.argmax(tf.strings.split(path, "/")[-2] == tf.constant(CLASSES))


def decode(content: Any, label: Any) -> Any:
    """Decode a JPEG file."""
    return tf.io.decode_jpeg(content, channels=3), label


def resize(image: Any, label: Any) -> Any:
    """Make an image small and square; what comes out are floats up to 255."""
    return tf.image.resize(image, (SIDE, SIDE)), label


def load(path: Any) -> Any:
    """Read, decode and resize."""
    return resize(*decode(*read(path)))


def load_bytes(folder: Path) -> Any:
    """Return images cached as bytes. Rounding moves a value by 0.5 at the most, which is half of 1/255 once scaled."""

    def load_rounded(path: Any) -> Any:
        image, label = load(path)
        return tf.cast(tf.round(image), tf.uint8), label

    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", shuffle=False)
    return files.map(load_rounded, _AUTOTUNE, deterministic=False).cache()


def flip(image: Any) -> Any:
    """Mirror half of the images."""
    return tf.cond(tf.random.uniform([]) < 0.5, lambda: tf.reverse(image, [1]), lambda: image)


def _scale(image: Any, label: Any) -> Any:
    """Scale to [0, 1]."""
    return image / 255.0, label


def _augment(image: Any, label: Any) -> Any:
    """Flip some images and make them brighter or darker."""
    return tf.image.random_brightness(tf.image.random_flip_left_right(image), BRIGHTNESS), label


def _finish(image: Any, label: Any) -> Any:
    """Flip, scale and brighten bytes."""
    return tf.cast(flip(image), tf.float32) / 255.0 + tf.random.uniform([], -BRIGHTNESS, BRIGHTNESS), label


_flower_case = partial(Case, letter="a", unit="images", make_data=make_data, units_per_epoch=count_files)

CASES: tuple[Case, ...] = (
    _flower_case(name="flowers", title="JPEG files, resized", naive=naive, expert=expert, best=best),
    _flower_case(
        name="flowers_augmented",
        title="JPEG files, resized, flipped and brightened",
        naive=partial(naive, augmented=True),
        expert=partial(expert, augmented=True),
        best=best_augmented,
        quick=True,
    ),
)
