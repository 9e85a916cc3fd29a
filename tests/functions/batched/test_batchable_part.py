"""What a batch can do at once is told from what elements need one by one."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.batched.batchable_part import split_batchable_part
from autopipe.pipeline.extract import function_of

Dataset = tf.data.Dataset
IMAGES = Dataset.from_tensors(np.zeros((8, 8, 3), np.uint8))
NAMES = Dataset.from_tensors("a.jpg")


def parts(dataset, function):
    return split_batchable_part(function_of(dataset.map(function)), None)


def read(name):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (8, 8)) / 255.0


@pytest.mark.parametrize(
    ("dataset", "function", "given"),
    [
        (IMAGES, tf.image.random_flip_left_right, [(8, 8, 3), ()]),
        (IMAGES, lambda x: tf.image.random_brightness(tf.cast(x, tf.float32), 0.1), [(8, 8, 3), ()]),
        (IMAGES, lambda x: tf.image.random_crop(x, (4, 4, 3)) / 255, [(8, 8, 3), (3,)]),
        (NAMES, read, [(1, 8, 8, 3)]),
        (NAMES, lambda name: (read(name), tf.strings.length(name)), [(), (1, 8, 8, 3)]),
    ],
)
def test_elements_give_what_they_draw_and_decode_and_the_batch_does_the_rest(dataset, function, given):
    first, rest, batched = parts(dataset, function)
    assert [part.shape for part in first.output_spec] == given
    assert effects(rest).pure
    assert effects(batched).pure
    assert tf.nest.map_structure(lambda part: part.shape[1:], batched.output_spec) == tf.nest.map_structure(
        lambda part: part.shape, rest.output_spec
    )


@pytest.mark.parametrize(
    ("dataset", "function"),
    [
        (IMAGES, lambda x: tf.random.uniform((3,))),
        (IMAGES, lambda x: tf.image.random_contrast(tf.cast(x, tf.float32), 0.5, 1.5)),
        (IMAGES, lambda x: tf.numpy_function(np.sin, [x], tf.float32)),
        (NAMES, lambda name: tf.io.decode_jpeg(tf.io.read_file(name))),
        (IMAGES, lambda x: x),
    ],
)
def test_a_function_whose_end_needs_elements_one_by_one_is_not_cut(dataset, function):
    assert parts(dataset, function) is None


def test_ops_without_a_batched_form_stay_before_the_cut_one_type_after_the_other():
    def framed_and_counted(x):
        boxes = tf.constant([[[0.1, 0.1, 0.5, 0.5]]])
        framed = tf.image.draw_bounding_boxes(tf.cast(x, tf.float32)[None], boxes, [[255.0, 0.0, 0.0]])
        return tf.histogram_fixed_width(framed, [0.0, 255.0], 4) * 2 + 1

    first, rest, _ = parts(IMAGES, framed_and_counted)
    before, after = ({op.type for op in part.concrete.graph.get_operations()} for part in (first, rest))
    assert {"DrawBoundingBoxesV2", "HistogramFixedWidth"} <= before
    assert {"DrawBoundingBoxesV2", "HistogramFixedWidth"}.isdisjoint(after)
    assert {"Mul", "AddV2"} <= after
