"""Keras training on JPEG files in class folders, as in TensorFlow's tutorial on flower photographs, with autopipe.

Trains with the pipeline as a newcomer writes it, then with the same pipeline optimized and tuned, and compares::

    python examples/flowers.py                           # makes a folder of photographs of its own
    python examples/flowers.py --images flower_photos    # any folder of class folders of .jpg files
    python examples/flowers.py --mobilenet               # a larger model, for a GPU
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import autopipe.examples._quiet

# isort: split

import keras
import tensorflow as tf
from rich.console import Console

from autopipe.errors import AutopipeError
from autopipe.examples.measuring import compare_speeds, show_results, train
from autopipe.examples.photographs import check_images, find_broken, make_photographs
from autopipe.telemetry import TelemetryWarning

__all__ = ["main", "make_model", "naive_pipeline"]

IMAGE_SIZE = (160, 160)
EPOCHS_AS_WRITTEN = 3
EPOCHS_OPTIMIZED = 12


def naive_pipeline(folder: Path) -> Any:
    """Return batches of images and labels, written as a newcomer writes it."""
    class_names = sorted(path.name for path in folder.iterdir() if path.is_dir())

    def read(path: Any) -> Any:
        label = tf.argmax(tf.strings.split(path, os.sep)[-2] == class_names)
        return tf.io.read_file(path), label

    def decode_and_resize(contents: Any, label: Any) -> Any:
        image = tf.io.decode_jpeg(contents, channels=3)
        return tf.image.resize(image, IMAGE_SIZE), label

    def augment(image: Any, label: Any) -> Any:
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(image, max_delta=30.0)
        return image / 127.5 - 1.0, label

    dataset = tf.data.Dataset.list_files(str(folder / "*/*.jpg"))
    dataset = dataset.map(read)
    dataset = dataset.cache()  # so that the disk is read only once
    dataset = dataset.map(decode_and_resize)
    dataset = dataset.map(augment)
    dataset = dataset.shuffle(100)
    return dataset.batch(32)


def make_model(classes: int, mobilenet: bool = False) -> Any:
    """Return a compiled model: a small convolution net, or MobileNetV2."""
    if mobilenet:
        model = keras.applications.MobileNetV2(input_shape=(*IMAGE_SIZE, 3), weights=None, classes=classes)
    else:
        model = keras.Sequential(
            [
                keras.Input((*IMAGE_SIZE, 3)),
                keras.layers.Conv2D(16, 8, strides=8, activation="relu"),
                keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(classes, activation="softmax"),
            ]
        )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(images: Path | None = None, mobilenet: bool = False) -> None:
    """Train with the pipeline as written, then optimized, and print how they compare.

    Args:
        images: a folder of class folders of ``.jpg`` files; by default one is made and removed again.
        mobilenet: train MobileNetV2 in place of the small net.

    Raises:
        ArgumentError: if the folder is not such a folder, or none can be made.
        DatasetError: if a file cannot be decoded; it is named.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = images or Path(made)
        if images is None:
            make_photographs(folder)
        check_images(folder)
        try:
            with warnings.catch_warnings():
                # Without a GPU there is one figure less, which is no news on a machine without one.
                warnings.simplefilter("ignore", TelemetryWarning)
                _compare(folder, mobilenet)
        except (tf.errors.OpError, autopipe.errors.DatasetError) as error:
            raise find_broken(folder) or error from None


def _compare(folder: Path, mobilenet: bool) -> None:
    console = Console()
    classes = sum(path.is_dir() for path in folder.iterdir())

    # Without rules the pipeline runs as it was written; this only lets PipelineMonitor see it.
    naive = autopipe.optimize(naive_pipeline(folder), rules=())
    monitor = autopipe.callbacks.PipelineMonitor()
    model = make_model(classes, mobilenet)
    before = train(model, naive, title="Training as written", epochs=EPOCHS_AS_WRITTEN, callback=monitor)

    with console.status("autopipe reads the pipeline and tries its stages"):
        dataset = autopipe.optimize(naive_pipeline(folder))
    console.print(dataset.explain())

    # The epochs here last less than a second; those of real training leave room for longer windows.
    tuner = autopipe.callbacks.PipelineTuner(window_seconds=0.1)
    model = make_model(classes, mobilenet)
    after = train(model, dataset, title="Training optimized", epochs=EPOCHS_OPTIMIZED, callback=tuner)

    speeds = compare_speeds(naive.original, dataset)
    show_results(console, before, after, speeds)
    console.print("To undo it: train from [bold]dataset.original[/], the pipeline as you wrote it.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of class folders of .jpg files")
    parser.add_argument("--mobilenet", action="store_true", help="train MobileNetV2 in place of a small net; for a GPU")
    # A terminal may have no sign for a bar.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        main(**vars(parser.parse_args()))
    except AutopipeError as error:
        sys.exit(f"error: {error}")
