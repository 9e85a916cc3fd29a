"""The registry of builders, which make the dataset of one transformation, by the type of its node."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir

__all__ = ["arguments_of", "build_stage", "deterministic", "from_variant"]


@singledispatch
def build_stage(node: ir.Node, *inputs: Any) -> Any:
    """Make the dataset of one transformation over the datasets of its inputs."""
    raise TypeError(f"Every node must have a builder, but {type(node).__name__} has none for {len(inputs)} inputs.")


def arguments_of(node: ir.Node, types: Any, shapes: Any) -> dict[str, Any]:
    """Return the arguments that most ops take."""
    return {"output_types": list(types), "output_shapes": list(shapes), "metadata": _metadata(node.name)}


def _metadata(name: str | None) -> bytes:
    """Return the serialized ``tensorflow.data.Metadata`` that carries a stage's name (field 1, a string)."""
    if not name:
        return b""
    text = name.encode()
    return b"\x0a" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


def deterministic(value: bool | None) -> str:
    """Return the value of TensorFlow's ops for ``deterministic=`` of its methods."""
    return {True: "true", False: "false", None: "default"}[value]


def from_variant(variant: Any, element_spec: Any) -> Any:
    """Return the dataset that an op has made."""
    return tf.data.experimental.from_variant(variant, element_spec)
