"""Keras' image_dataset_from_directory, with its preprocessing layers for the augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers._base import BATCH, SIZE, Peer

__all__ = ["PEER", "make"]

_SHUFFLED = 1000


def make(folder: Path, augment: bool, cached: bool = False) -> Callable[[], Iterable[Any]]:
    """Return what gives the batches of one epoch, which may be cached once they are decoded."""
    import keras
    import tensorflow as tf

    dataset = keras.utils.image_dataset_from_directory(folder, image_size=SIZE, batch_size=BATCH, verbose=False)
    if cached:
        dataset = dataset.cache().shuffle(_SHUFFLED)
    layers = [keras.layers.Rescaling(1 / 255)]
    if augment:
        layers += [keras.layers.RandomFlip("horizontal"), keras.layers.RandomBrightness(0.1, value_range=(0, 1))]

    def prepare(images: Any, labels: Any) -> Any:
        for layer in layers:
            images = layer(images, training=True) if layer is not layers[0] else layer(images)
        return images, labels

    dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return lambda: dataset


PEER = Peer(
    name="Keras image_dataset_from_directory",
    package="keras",
    install="pip install keras",
    make=make,
    note="nothing cached, as in Keras' example; brightness is clipped",
)
