import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses

RULE = "crop_while_decoding"


def picture(height, width, channels=3):
    draw = np.random.default_rng(height * width)
    coarse = draw.integers(0, 255, (height // 8 + 1, width // 8 + 1, channels))
    fine = np.kron(coarse, np.ones((8, 8, 1)))[:height, :width] + draw.integers(-20, 20, (height, width, channels))
    return np.clip(fine, 0, 255).astype(np.uint8)


def jpeg(image, *, halved, progressive):
    encoded = tf.io.encode_jpeg(image, chroma_downsampling=halved, progressive=progressive, quality=80)
    return encoded.numpy()


SIZES = [(60, 80), (33, 47), (128, 90), (97, 31)]
FILES = [
    jpeg(picture(*size), halved=halved, progressive=progressive)
    for size in SIZES
    for halved in (True, False)
    for progressive in (True, False)
]
IMAGES = tf.data.Dataset.from_tensor_slices(FILES)


def decoded(contents):
    return tf.io.decode_jpeg(contents, channels=3)


def by_a_seed(contents):
    image = decoded(contents)
    seed = tf.stack([tf.strings.length(contents), 1])
    return tf.image.stateless_random_crop(image, (24, 20, 3), seed)


def by_its_size(contents):
    image = decoded(contents)
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    return tf.slice(image, (height // 3, 0, 0), (9, width // 2, 3))


CROPS = {
    "fixed box": lambda x: tf.image.crop_to_bounding_box(decoded(x), 3, 5, 21, 17),
    "fixed slice": lambda x: tf.slice(decoded(x), (1, 2, 0), (13, 14, 3)),
    "rest of the image": lambda x: tf.slice(decoded(x), (9, 11, 0), (-1, -1, -1)),
    "some channels": lambda x: tf.slice(decoded(x), (9, 11, 1), (5, 6, 2)),
    "center": lambda x: tf.image.central_crop(decoded(x), 0.5),
    "random by a seed": by_a_seed,
    "then more": lambda x: {"x": tf.image.resize(tf.image.crop_to_bounding_box(decoded(x), 0, 0, 30, 30), (8, 8))},
    "by its size": by_its_size,
    "gray": lambda x: tf.slice(tf.io.decode_jpeg(x, channels=1), (3, 4, 0), (11, 12, 1)),
    "its own channels": lambda x: tf.slice(tf.io.decode_jpeg(x), (3, 4, 0), (11, 12, 3)),
    "plain upscaling": lambda x: tf.slice(tf.io.decode_jpeg(x, 3, fancy_upscaling=False), (3, 4, 0), (11, 12, 3)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CROPS)
def test_decodes_only_the_crop_to_the_same_bits(name):
    dataset = IMAGES.map(CROPS[name])
    done = apply(RULE, dataset)

    assert [step.rule for step in done.steps] == [RULE]
    assert "DecodeJpeg" not in {op.type for op in done.after.fn.concrete.graph.get_operations()}
    assert build(done.after).element_spec == dataset.element_spec
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


def test_every_window_of_every_kind_of_file_has_the_same_bits():
    draw = np.random.default_rng(1)
    windows = []
    for file in FILES:
        height, width, _ = tf.image.extract_jpeg_shape(file).numpy()
        for _ in range(40):
            y, x = draw.integers(0, height), draw.integers(0, width)
            windows.append((file, (y, x, 0), (draw.integers(1, height - y + 1), draw.integers(1, width - x + 1), 3)))
    contents, begins, sizes = zip(*windows, strict=True)
    parts = tf.data.Dataset.from_tensor_slices((list(contents), np.array(begins), np.array(sizes)))
    dataset = parts.map(lambda file, begin, size: tf.slice(decoded(file), begin, size))

    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE, epochs=1) is None


@pytest.mark.parametrize("channels", [0, 3])
def test_a_file_of_four_colours_to_print_with_has_three_channels(channels):
    file = io.BytesIO()
    Image.fromarray(picture(40, 50, 4), "CMYK").save(file, "JPEG")

    def lower_right(x):
        image = tf.io.decode_jpeg(x, channels)
        size = tf.shape(image)
        return tf.slice(image, [3, 5, 0], size - [3, 5, 0]), size

    dataset = tf.data.Dataset.from_tensors(file.getvalue()).map(lower_right)
    done = apply(RULE, dataset)
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


def test_a_random_crop_of_every_image_stays_its_own():
    one = tf.data.Dataset.from_tensors(FILES[0]).repeat(40)
    dataset = one.map(lambda x: tf.image.random_crop(decoded(x), (24, 20, 3)))
    done = apply(RULE, dataset)

    assert one_line(done.after) == "tensors | repeat(40) | map(<lambda> cropping as it decodes)"
    whole = decoded(FILES[0]).numpy()
    windows = np.lib.stride_tricks.sliding_window_view(whole, (24, 20, 3)).reshape(-1, 24, 20, 3)
    possible = {window.tobytes() for window in windows}
    seen = [element.numpy().tobytes() for element in build(done.after)]
    assert set(seen) <= possible
    assert len(set(seen)) > 20


def test_a_file_that_is_no_jpeg_is_still_read():
    image = picture(40, 50)
    files = [tf.io.encode_png(image).numpy(), jpeg(image, halved=True, progressive=False)]
    dataset = tf.data.Dataset.from_tensor_slices(files).map(CROPS["center"])
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_damage_outside_the_window_would_no_longer_be_met():
    broken = FILES[0][: len(FILES[0]) // 2]
    dataset = tf.data.Dataset.from_tensor_slices([*FILES, broken]).map(CROPS["fixed box"])
    assert_refuses(RULE, dataset, "may fail (", Keeps.SEQUENCE)
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors()")


def test_refuses_what_is_not_faster():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, IMAGES.map(CROPS["center"]), "measured 0.80x", answers=slower)


def test_does_not_match_where_pixels_decide_or_are_used_whole():
    def by_its_pixels(contents):
        image = decoded(contents)
        return tf.slice(image, (tf.cast(image[0, 0, 0], tf.int32) % 5, 0, 0), (9, 9, 3))

    def twice(contents):
        image = decoded(contents)
        return tf.slice(image, (0, 0, 0), (9, 9, 3)), tf.slice(image, (1, 0, 0), (9, 9, 3))

    def recovered(contents):
        image = tf.io.decode_jpeg(contents, 3, try_recover_truncated=True)
        return tf.slice(image, (0, 0, 0), (5, 5, 3))

    assert_no_match(RULE, IMAGES.map(by_its_pixels))
    assert_no_match(RULE, IMAGES.map(twice))
    assert_no_match(RULE, IMAGES.map(decoded))
    assert_no_match(RULE, IMAGES.map(lambda x: tf.slice(tf.io.decode_jpeg(x, 3, ratio=2), (0, 0, 0), (5, 5, 3))))
    assert_no_match(RULE, IMAGES.map(recovered))
    assert_no_match(RULE, IMAGES.map(lambda x: tf.slice(tf.cast(decoded(x), tf.float32), (0, 0, 0), (5, 5, 3))))


def test_leaves_an_image_that_is_given_as_a_whole_too():
    def both(content):
        image = tf.io.decode_jpeg(content, channels=3)
        return image, tf.slice(image, (0, 0, 0), (9, 9, 3))

    assert_no_match(RULE, tf.data.Dataset.from_tensors(tf.io.encode_jpeg(tf.zeros([16, 16, 3], tf.uint8))).map(both))
