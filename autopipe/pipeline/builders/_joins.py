"""Transformations of several datasets."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.builders._base import build_stage, from_variant
from autopipe.pipeline.extract import element_shapes, element_types

__all__: list[str] = []


@build_stage.register
def _zip(node: ir.Zip, *parts: Any) -> Any:
    return tf.data.Dataset.zip(tf.nest.pack_sequence_as(node.structure, list(parts)), name=node.name)


@build_stage.register
def _concatenate(node: ir.Concatenate, first: Any, second: Any) -> Any:
    return first.concatenate(second, name=node.name)


@build_stage.register
def _choose_from(node: ir.ChooseFrom, choices: Any, *parts: Any) -> Any:
    # The method of that name hides the choices in a graph, into which extract() could not look any more.
    variants = [tf.data.experimental.to_variant(part) for part in parts]
    typed = from_variant(variants[0], node.element_spec)
    variant = tf.raw_ops.DirectedInterleaveDataset(
        selector_input_dataset=tf.data.experimental.to_variant(choices),
        data_input_datasets=variants,
        output_types=element_types(typed),
        output_shapes=element_shapes(typed),
        stop_on_empty_dataset=node.stop_on_empty,
    )
    return from_variant(variant, node.element_spec)
