"""Ops that TensorFlow computes slowly, each with one that gives the same bits in less time.

For an image of 224x224x3 floats on one core (TensorFlow 2.21): ``x[..., ::-1]`` takes 1.2 ms and ``tf.reverse`` 0.2;
``x - [r, g, b]`` takes 0.3 to 0.4 ms and the same on whole rows of the image 0.1; ``tf.where`` with one condition for
all takes 0.7 ms, and passing on one of two tensors nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import tensorflow as tf

from autopipe.functions.analysis.failures import may_fail
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.regrouped import joined_ops
from autopipe.functions.subgraph import constant, origin
from autopipe.functions.swapped import Swap, find_swaps, with_swaps

__all__ = ["CheaperOps", "cheaper_ops"]

# For fewer numbers than this, all ops take about as long.
_LEAST_NUMBERS = 4096
# With more channels than this, TensorFlow handles those of a pixel at once.
_MOST_CHANNELS = 16
# An image, or a batch of rows of pixels.
_LEAST_RANK = 3
_MOST_RANK_TO_REVERSE = 8
# The types of ``tf.tile``; ``tf.reverse`` also takes uint16. Both take fewer types than the ops they replace.
_TILED = frozenset(
    "bfloat16 bool complex128 complex64 float16 float32 float64 int16 int32 int64 int8 string uint32 uint64 "
    "uint8".split()
)
_REVERSED = _TILED | {"uint16"}
# Each value of the result takes one value of each of two operands.
_BY_VALUE = frozenset(
    "Add AddV2 Equal Greater GreaterEqual Less LessEqual Maximum Minimum Mul NotEqual RealDiv SquaredDifference "
    "Sub".split()
)


class CheaperOps(NamedTuple):
    """A function with cheaper ops.

    Attributes:
        fn: it gives the same bits.
        instead: which ops replace which, and how often.
    """

    fn: Function
    instead: str


@remembered
def cheaper_ops(fn: Function) -> CheaperOps | None:
    """Return the same function with cheaper ops; ``None`` if none of its ops has one.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> image = tf.data.Dataset.from_tensors(tf.zeros((64, 64, 3)))
    >>> cheaper_ops(extract(image.map(lambda x: x[..., ::-1] - [0.1, 0.2, 0.3])).fn).instead
    'x[::-1] by reverse, Sub by rows'
    """
    # A reshape to sizes that are unknown before a run counts as one that may fail, which must not prevent other swaps.
    any_size = may_fail(fn) is not None
    found: Counter[str] = Counter()

    def find(op: Any) -> Swap | None:
        for name, swap in (
            ("x[::-1] by reverse", _turned_around(op) or _channels_turned_around(op)),
            (f"{op.type} by rows", _by_rows(op, any_size)),
            ("where by a choice of one", _handed_on(op)),
        ):
            if swap is not None:
                found[name] += 1
                return swap
        return None

    swaps = find_swaps(fn.concrete.graph, find)
    if not swaps:
        return None
    instead = ", ".join(name if count == 1 else f"{count} times {name}" for name, count in found.items())
    return CheaperOps(with_swaps(fn, swaps, f"{fn.name} by cheaper ops"), instead)


def _turned_around(op: Any) -> Swap | None:
    """Reverse whole axes with ``tf.reverse`` in place of a slice with steps of -1."""
    turning = op.type == "StridedSlice" and op.inputs[0].dtype.name in _REVERSED and _may_be_large(op.inputs[0])
    axes = _axes_turned(op) if turning else []
    return (lambda x, *_: [tf.reverse(x, axes)]) if axes else None


def _axes_turned(sliced: Any) -> list[int]:
    """Return the axes that a slice reverses, if it takes everything along all axes."""
    axes = []
    for axis, (_, step, takes_all) in (_parts(sliced) or {}).items():
        if not takes_all or step not in (1, -1):
            return []
        if step == -1:
            axes.append(axis)
    return axes


def _channels_turned_around(op: Any) -> Swap | None:
    """Reverse the last axis in place of stacking its parts from the last to the first."""
    if op.type != "Pack" or op.get_attr("axis") not in (-1, op.inputs[0].shape.rank):
        return None
    if op.inputs[0].dtype.name not in _REVERSED:
        return None
    channels = [_channel(each) for each in op.inputs]
    images = {id(image): image for image, _ in channels}
    (image,) = images.values() if len(images) == 1 else [None]
    backwards = [number for _, number in channels] == [*range(len(channels))][::-1]
    if image is None or not backwards or image.shape[-1] != len(channels) or not _may_be_large(image):
        return None
    return lambda first, *_: [tf.reverse(origin(first).op.inputs[0], [-1])]


def _channel(tensor: Any) -> tuple[Any, int | None]:
    """Return the image that a tensor is one channel of, and the position of the channel; ``None`` if it is not."""
    op = origin(tensor).op
    if op.type != "StridedSlice" or op.inputs[0].shape.rank is None:
        return None, None
    image = op.inputs[0]
    parts = _parts(op, shrinking=True) or {}
    last = image.shape.rank - 1
    whole = all(takes_all and step == 1 for axis, (_, step, takes_all) in parts.items() if axis != last)
    if not whole or last not in parts or image.shape[-1] is None or tensor.shape.rank != last:
        return None, None
    return image, int(parts[last][0]) % image.shape[-1]


def _parts(sliced: Any, *, shrinking: bool = False) -> dict[int, tuple[int, int, bool]] | None:
    """Return the start and step of a slice along each axis that it names, and whether it takes all there.

    ``None`` if that is unknown, or if the slice adds an axis, or drops one unless ``shrinking``.
    """
    image, begin, _, steps = sliced.inputs
    begins, strides = constant(begin), constant(steps)
    masks = {name: sliced.get_attr(f"{name}_mask") for name in "begin end ellipsis new_axis shrink_axis".split()}
    rank = image.shape.rank
    if rank is None or rank > _MOST_RANK_TO_REVERSE or begins is None or strides is None or masks["new_axis"]:
        return None
    if masks["shrink_axis"] and not shrinking:
        return None
    parts, axis = {}, 0
    for place in range(len(strides)):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            axis += rank - (len(strides) - 1)
            continue
        takes_all = bool(masks["begin"] & bit and masks["end"] & bit and not masks["shrink_axis"] & bit)
        parts[axis] = (int(begins[place]), int(strides[place]), takes_all)
        axis += 1
    return parts


def _by_rows(op: Any, any_size: bool) -> Swap | None:
    """Repeat the number for each channel along a whole row of pixels, and compute with that."""
    if op.type not in _BY_VALUE or op.inputs[0].dtype.name not in _TILED:
        return None
    for large in range(2):
        image, numbers = op.inputs[large], op.inputs[1 - large]
        if _are_of_channels(numbers, image) and (any_size or _has_known_rows(image)):
            return None if op in joined_ops(op.graph) else _ByRows(op, large)
    return None


def _are_of_channels(numbers: Any, image: Any) -> bool:
    """Return whether a small tensor has one number for each channel of a large one."""
    if image.shape.rank is None or image.shape.rank < _LEAST_RANK or not numbers.shape.is_fully_defined():
        return False
    channels = image.shape[-1]
    if channels is None or not 1 < channels <= _MOST_CHANNELS or not _may_be_large(image):
        return False
    shape = numbers.shape.as_list()
    return bool(shape and shape[-1] == channels == numbers.shape.num_elements() and len(shape) <= image.shape.rank)


class _ByRows:
    """An op on rows of pixels."""

    def __init__(self, op: Any, large: int) -> None:
        self._type, self._large, self._shape = op.type, large, op.outputs[0].shape

    def __call__(self, *operands: Any) -> list[Any]:
        image, numbers = operands[self._large], operands[1 - self._large]
        channels = image.shape[-1]
        sizes = [-1, *image.shape.as_list()[1:]] if _has_known_rows(image) else tf.shape(image)
        wide = tf.reshape(image, _in_rows(sizes, channels))
        row = tf.tile(tf.reshape(numbers, [channels]), [sizes[-2]])
        first, second = (row, wide) if self._large else (wide, row)
        made = tf.reshape(getattr(tf.raw_ops, self._type)(x=first, y=second), sizes)
        made.set_shape(self._shape)
        return [made]


def _has_known_rows(image: Any) -> bool:
    """Return whether the size of images is known, except along the first axis: their number, or their rows."""
    return bool(image.shape[1:].is_fully_defined() and image.shape[1:].num_elements())


def _in_rows(sizes: Any, channels: int) -> Any:
    """Return sizes with the pixels of a row and their channels along one axis."""
    row = sizes[-2] * channels
    return [*sizes[:-2], row] if isinstance(sizes, list) else tf.concat([sizes[:-2], [row]], 0)


def _handed_on(op: Any) -> Swap | None:
    """Pass on one of two tensors unchanged if one condition decides for all of their values."""
    if op.type != "SelectV2":
        return None
    condition, *either = op.inputs
    shapes = [each.shape for each in either]
    alike = all(shape.is_fully_defined() for shape in shapes) and shapes[0] == shapes[1]
    if condition.shape.rank != 0 or not alike or not _may_be_large(either[0]):
        return None
    return lambda condition, x, y: [tf.raw_ops.Select(condition=condition, x=x, y=y)]


def _may_be_large(tensor: Any) -> bool:
    """Return whether a tensor holds many numbers, or an unknown number."""
    count = tensor.shape.num_elements()
    return count is None or count >= _LEAST_NUMBERS
