"""Decoding only the part of a JPEG image that is cropped from it, to the same pixels.

``tf.io.decode_and_crop_jpeg`` alone does not do that: at the border of its window, colours that are stored at half
resolution have no neighbours to be interpolated with, and so about half of all common JPEG files come out different
there. A window with a margin, cut to size afterwards, gives the same bits. Files that are not JPEG, which
``tf.io.decode_jpeg`` also reads, are decoded whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import constant
from autopipe.functions.swapped import with_swaps

__all__ = ["crop_while_decoding"]

# Interpolation looks at the next stored colour, which is two pixels away.
_MARGIN = 4


@remembered
def crop_while_decoding(fn: Function) -> Function | None:
    """Return the same function, decoding only what it crops; ``None`` if it does not crop what it decodes.

    The window may be fixed, random or depend on the size of the image, which is read from the head of the file.
    """
    replacements: dict[Any, Callable[..., Any]] = {}
    for op in fn.concrete.graph.get_operations():
        # From a truncated file, another part may be recovered.
        whole = op.type == "DecodeJpeg" and not op.get_attr("try_recover_truncated")
        if whole and op.get_attr("ratio") == 1:
            replacements |= _replacements(op) or {}
    return with_swaps(fn, replacements, f"{fn.name} cropping as it decodes") if replacements else None


def _replacements(decode: Any) -> dict[Any, Callable[..., Any]] | None:
    """Return the replacements of the ops from decoding to cropping, which pass on the contents of the file.

    ``None`` if the image is used for anything but its shape and one crop.
    """
    passing: dict[Any, Callable[..., Any]] = {decode: _contents}
    waiting = [(decode.outputs[0], 0)]
    while waiting:
        tensor, leading = waiting.pop()
        for op in tensor.consumers():
            match op.type:
                case "Identity":
                    passing[op] = _contents
                    waiting.append((op.outputs[0], leading))
                case "ExpandDims" if leading == 0 and _is_constant(op.inputs[1], 0):
                    passing[op] = _contents
                    waiting.append((op.outputs[0], 1))
                case "Shape":
                    passing[op] = _ShapeOf(decode, op, leading)
                case "Slice" if tensor is op.inputs[0]:
                    passing[op] = _CropOf(decode, op, leading)
                case _:
                    return None
    # The replacements pass on the contents of the file, which must not be a result.
    given = set(map(id, decode.graph.outputs))
    if any(id(op.outputs[0]) in given for op, made in passing.items() if made is _contents):
        return None
    crops = [made for made in passing.values() if isinstance(made, _CropOf)]
    return passing if len(crops) == 1 else None


def _contents(contents: Any, *_: Any) -> list[Any]:
    """Pass on the contents of the file."""
    return [contents]


def _is_constant(tensor: Any, value: int) -> bool:
    found = constant(tensor)
    return found is not None and found.tolist() == value


class _ShapeOf:
    """The shape of an image, from the head of its file."""

    def __init__(self, decode: Any, shape: Any, leading: int) -> None:
        self._decode, self._type, self._leading = decode, shape.outputs[0].dtype, leading

    def __call__(self, contents: Any) -> list[Any]:
        shape = tf.cast(_image_shape(self._decode, contents), self._type)
        return [tf.concat([tf.ones([self._leading], self._type), shape], 0)]


class _CropOf:
    """A crop of an image, decoded with a margin."""

    def __init__(self, decode: Any, crop: Any, leading: int) -> None:
        self._decode, self._leading, self._static = decode, leading, crop.outputs[0].shape

    def __call__(self, contents: Any, begin: Any, size: Any) -> list[Any]:
        start = tf.cast(begin[self._leading :], tf.int32)
        extent = tf.cast(size[self._leading :], tf.int32)
        made = tf.cond(
            tf.io.is_jpeg(contents),
            lambda: self._part(contents, start, extent),
            lambda: tf.slice(_decode_whole(self._decode, contents), start, extent),
        )
        made = tf.expand_dims(made, 0) if self._leading else made
        made.set_shape(self._static)
        return [made]

    def _part(self, contents: Any, start: Any, extent: Any) -> Any:
        shape = tf.image.extract_jpeg_shape(contents)[:2]
        corner = start[:2]
        opposite = tf.where(extent[:2] < 0, shape, corner + extent[:2])
        first = tf.maximum(corner - _MARGIN, 0)
        last = tf.minimum(opposite + _MARGIN, shape)
        window = tf.raw_ops.DecodeAndCropJpeg(
            contents=contents, crop_window=tf.concat([first, last - first], 0), **_settings(self._decode)
        )
        inside = tf.concat([corner - first, start[2:]], 0)
        return tf.slice(window, inside, tf.concat([opposite - corner, extent[2:]], 0))


def _image_shape(decode: Any, contents: Any) -> Any:
    def of_jpeg() -> Any:
        stored = tf.image.extract_jpeg_shape(contents)
        channels = decode.get_attr("channels")
        # CMYK images with four channels are decoded to three.
        return tf.concat([stored[:2], [channels] if channels else tf.minimum(stored[2:], 3)], 0)

    return tf.cond(tf.io.is_jpeg(contents), of_jpeg, lambda: tf.shape(_decode_whole(decode, contents)))


def _decode_whole(decode: Any, contents: Any) -> Any:
    return tf.raw_ops.DecodeJpeg(contents=contents, **_settings(decode))


def _settings(decode: Any) -> dict[str, Any]:
    names = "channels ratio fancy_upscaling try_recover_truncated acceptable_fraction dct_method".split()
    return {name: decode.get_attr(name) for name in names}
