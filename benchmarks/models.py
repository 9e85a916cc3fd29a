"""The models that the training runs train: so small that the input matters, yet more work than Python's overhead.

On a GPU small nets are no such work: there ResNet-50 takes the place of those for images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np

__all__ = ["LARGE_MODELS", "MODELS", "make_model"]

_CLASSES = 5
_CATEGORIES = 1000
_EMBEDDED = 16

_Features = Callable[[Any], Any]


def make_model(case: str, element_spec: Any, *, large: bool = False) -> Any:
    """Return a new compiled model for a case; its initial weights are the same at every call.

    Args:
        case: its name.
        element_spec: what its pipelines yield.
        large: whether it is the case's large model, where there is one.
    """
    models = {**MODELS, **LARGE_MODELS} if large else MODELS
    model = models[case](element_spec)
    # Not by a seed of the whole process: that would be the wish for one order of every shuffle.
    draw = np.random.default_rng(0)
    model.set_weights([_initial(part, draw) for part in model.get_weights()])
    return model


def _initial(part: Any, draw: np.random.Generator) -> Any:
    """Return weights that neither raise nor damp what goes through them (He et al., 2015); biases stay."""
    return draw.normal(0.0, np.sqrt(2.0 / np.prod(part.shape[:-1])), part.shape) if part.ndim > 1 else part


def _small_net(pixels: Any) -> Any:
    """Return the features that a small convolution net finds, as in the demo."""
    pixels = keras.layers.Conv2D(16, 8, strides=8, activation="relu")(pixels)
    pixels = keras.layers.Conv2D(32, 3, strides=2, activation="relu")(pixels)
    return keras.layers.GlobalAveragePooling2D()(pixels)


def _resnet50(pixels: Any) -> Any:
    """Return the features that ResNet-50 finds."""
    net = keras.applications.ResNet50(include_top=False, weights=None, input_shape=pixels.shape[1:], pooling="avg")
    return net(pixels)


def _classifier(element_spec: Any, features: _Features = _small_net, jit_compile: bool | str = "auto") -> Any:
    """Return a model that tells the class of an image."""
    image, _ = element_spec
    pixels = keras.Input(image.shape[1:])
    classes = keras.layers.Dense(_CLASSES, activation="softmax")(features(pixels))
    model = keras.Model(pixels, classes)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=jit_compile)
    return model


class _SelfTaught(keras.Model):  # type: ignore[misc]
    """Learns the mean colour of an image: a task for images without labels."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Return the squared error of the mean colour."""
        return keras.ops.mean(keras.ops.square(y_pred - keras.ops.mean(x, axis=(1, 2))))


def _self_taught(element_spec: Any, features: _Features = _small_net, jit_compile: bool | str = "auto") -> Any:
    """Return such a model for images alone."""
    pixels = keras.Input(element_spec.shape[1:])
    model = _SelfTaught(pixels, keras.layers.Dense(3)(features(pixels)), name="self_taught")
    model.compile("adam", jit_compile=jit_compile)
    return model


def _recommender(element_spec: Any) -> Any:
    """Return a net that embeds the whole numbers of an example and puts dense layers on all of it."""
    features: Mapping[str, Any] = element_spec[0]
    inputs = {
        name: keras.Input(spec.shape[1:], dtype=spec.dtype.name, name=name) for name, spec in sorted(features.items())
    }
    joined = keras.layers.Concatenate()([_embedded(each) for each in inputs.values()])
    hidden = keras.layers.Dense(256, activation="relu")(joined)
    hidden = keras.layers.Dense(128, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile("adam", "binary_crossentropy")
    return model


def _embedded(feature: Any) -> Any:
    if keras.backend.is_int_dtype(feature.dtype):
        return keras.layers.Embedding(_CATEGORIES, _EMBEDDED)(feature)
    return feature if len(feature.shape) > 1 else keras.layers.Reshape((1,))(feature)


MODELS: dict[str, Callable[[Any], Any]] = {
    "flowers": _classifier,
    "flowers_augmented": _classifier,
    "fused_map": _self_taught,
    "parse_example": _recommender,
}
# XLA compiles ResNet-50 for longer than it is trained here; JAX knows no other way.
_LARGE = {"features": _resnet50, "jit_compile": "auto" if keras.config.backend() == "jax" else False}
LARGE_MODELS: dict[str, Callable[[Any], Any]] = {
    "flowers": partial(_classifier, **_LARGE),
    "flowers_augmented": partial(_classifier, **_LARGE),
    "fused_map": partial(_self_taught, **_LARGE),
}
