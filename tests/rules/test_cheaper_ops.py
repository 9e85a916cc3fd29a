import keras
import numpy as np
import pytest
import tensorflow as tf

from autopipe import optimize
from autopipe.functions.analysis.failures import may_fail
from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, with_all_rules

RULE = "cheaper_ops"
Dataset = tf.data.Dataset
IMAGES = np.random.default_rng(0).integers(0, 255, (12, 40, 40, 3), dtype=np.uint8)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def images():
    return Dataset.from_tensor_slices(IMAGES)


def normalize(image):
    return (tf.cast(image, tf.float32) / 255.0 - MEAN) / DEVIATION


def flip(image):
    image = tf.where(tf.random.uniform(()) < 0.5, image[:, ::-1], image)
    return tf.cond(tf.random.uniform(()) < 0.5, lambda: image[::-1], lambda: image)


def test_elements_stay_to_the_bit_and_calls_as_many():
    expected = "tensor_slices | map(normalize by cheaper ops, calls=2) | batch(4)"
    done = assert_rewrites(RULE, images().map(normalize, num_parallel_calls=2).batch(4), expected, Keeps.SEQUENCE)
    proofs = [proof.because for proof in done.steps[0].proofs]
    assert "each value is the result of the same operation on the same values: Sub by rows, RealDiv by rows" in proofs
    assert "equal on a sample of your elements" in proofs


def test_batches_of_images_are_taken_too():
    for batched, text in (
        (images().batch(4, drop_remainder=True), "batch(4, drop_remainder=True)"),
        (images().batch(5), "batch(5)"),
    ):
        expected = f"tensor_slices | {text} | map(normalize by cheaper ops)"
        done = assert_rewrites(RULE, batched.map(normalize), expected, Keeps.SEQUENCE)
        assert may_fail(done.after.fn) is None


def test_the_preprocessing_and_the_layers_of_keras_get_the_same_bits():
    layer = keras.layers.Normalization(mean=MEAN, variance=DEVIATION)
    for function in (keras.applications.vgg16.preprocess_input, lambda x: layer(x[..., ::-1])):
        floats = images().map(lambda x: tf.cast(x, tf.float32)).map(function)
        done = apply(RULE, floats, Keeps.SEQUENCE)
        assert [step.rule for step in done.steps] == [RULE]
        for one, other in zip(floats, build(done.after), strict=True):
            assert one.numpy().tobytes() == other.numpy().tobytes()


def test_every_image_still_gets_draws_of_its_own():
    one = Dataset.from_tensors(IMAGES[0]).repeat(64).map(flip)
    after = build(apply(RULE, one, Keeps.SEQUENCE).after)
    four = {IMAGES[0][::down, ::along].tobytes() for down in (1, -1) for along in (1, -1)}
    for _ in range(2):
        assert {image.numpy().tobytes() for image in after} == four


def test_a_seed_draws_the_numbers_that_it_drew():
    tf.random.set_seed(5)
    try:
        dataset = images().repeat(3).map(flip)
        assert_rewrites(RULE, dataset, "tensor_slices | repeat(3) | map(flip by cheaper ops)", Keeps.SEQUENCE)
    finally:
        tf.random.set_seed(None)


def mirrored(image):
    return normalize(tf.image.random_flip_left_right(image, seed=1))


def turned(image):
    return normalize(tf.where(tf.random.uniform((), seed=2) < 0.5, image[:, ::-1], image))


def shaded(image):
    return tf.cond(tf.random.uniform((), seed=3) < 0.5, lambda: normalize(image), lambda: normalize(image[..., ::-1]))


@pytest.mark.parametrize("augment", [mirrored, turned, shaded])
def test_all_rules_together_keep_what_comes_after_the_draws_of_a_seed(augment):
    dataset = images().map(augment).batch(4)
    for one, other in zip(dataset, with_all_rules(dataset, Keeps.ELEMENTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_is_done_once():
    done = apply(RULE, images().map(flip))
    assert not apply(RULE, build(done.after)).steps


def test_numbers_of_which_tensorflow_makes_no_rows_stay_as_they_are():
    def rarely(image, rare):
        # No sample has the one for which a row would be made.
        least = tf.constant([900, 800, 700], tf.uint16)
        return tf.cond(rare, lambda: tf.minimum(image[:, ::-1], least), lambda: image[::-1])

    deep = IMAGES.astype("uint16") * 200
    dataset = Dataset.from_tensor_slices((deep, np.arange(12) == 11)).map(rarely)
    assert_rewrites(RULE, dataset, "tensor_slices | map(rarely by cheaper ops)", Keeps.SEQUENCE)


def test_numbers_that_tensorflow_reverses_by_a_slice_only_stay_as_they_are():
    tiny = tf.cast(IMAGES.astype("float32"), tf.dtypes.experimental.float8_e5m2)
    assert_no_match(RULE, Dataset.from_tensor_slices(tiny).map(lambda x: x[:, ::-1]))
    assert_no_match(RULE, Dataset.from_tensor_slices(tiny).map(lambda x: tf.stack(tf.unstack(x, axis=-1)[::-1], -1)))


def test_refuses_where_it_is_not_faster():
    assert_refuses(RULE, images().map(normalize), "measured 1.00x", answers=Answers(speed=(1.0, 0.9, 1.1)))


def test_leaves_small_elements_and_other_stages_alone():
    assert_no_match(RULE, Dataset.from_tensor_slices(IMAGES[:, :8, :8]).map(normalize))
    assert_no_match(RULE, images().filter(lambda x: tf.reduce_sum(tf.cast(x[::-1], tf.int32)) > 0))
    assert RULE not in {step.rule for step in apply(RULE, images().batch(4)).steps}


def test_the_function_of_a_user_who_keeps_state_is_not_run_for_a_measurement():
    calls = []

    def counted(image):
        image = tf.py_function(lambda x: calls.append(1) or x, [image], tf.uint8)
        return tf.ensure_shape(image, (40, 40, 3))[:, ::-1]

    optimized = optimize(images().map(counted))
    assert not calls
    assert len(list(optimized)) == len(calls) == len(IMAGES)
