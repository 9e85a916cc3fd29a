"""Keras' image_dataset_from_directory, cached and shuffled as TensorFlow's tutorial on classifying images does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.peers import image_dataset_from_directory

__all__ = ["PEER"]

PEER = replace(
    image_dataset_from_directory.PEER,
    name="Keras image_dataset_from_directory, cached",
    make=partial(image_dataset_from_directory.make, cached=True),
    note="keeps whole batches: whose images are together stay so in every epoch; brightness is clipped",
)
