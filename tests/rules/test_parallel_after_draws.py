import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_after_draws"
IMAGES = np.random.default_rng(0).random((12, 6, 6, 3)).astype(np.float32)
GENERATOR = tf.random.Generator.from_seed(1)


def seeded(x):
    return tf.cast(x, tf.float32) + tf.random.uniform((2,), seed=7)


def of_a_generator(x):
    return tf.cast(x, tf.float32) * GENERATOR.uniform((3,)) + GENERATOR.normal(())


def images(layer):
    return tf.data.Dataset.from_tensor_slices(IMAGES).map(lambda image: layer(image, training=True))


def epochs(dataset, state, start):
    state.assign(start)
    return [[element.numpy().tobytes() for element in dataset] for _ in range(2)]


@pytest.mark.parametrize("keeps", Keeps)
def test_draws_from_a_seed_in_order_and_works_in_parallel(keeps):
    dataset = tf.data.Dataset.range(50).map(seeded)
    expected = "range(0, 50) | map(draws of seeded, synchronous=True) | map(rest of seeded, calls=AUTOTUNE)"
    done = assert_rewrites(RULE, dataset, expected, keeps)
    assert done.steps[0].keeps is Keeps.SEQUENCE


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.RandomFlip(seed=1),
        keras.layers.RandomRotation(0.2, seed=2),
        keras.layers.RandomBrightness(0.3, seed=3),
        keras.layers.RandomContrast(0.3, seed=4),
        keras.layers.RandomZoom(0.3, seed=5),
    ],
    ids=lambda layer: layer.name,
)
def test_every_image_gets_the_draw_of_the_keras_layer_it_got_before(layer):
    dataset = images(layer)
    after = build(apply(RULE, dataset).after)
    state = layer.generator.state

    assert apply(RULE, dataset).steps
    assert epochs(dataset, state, [9, 0]) == epochs(after, state, [9, 0])
    assert epochs(after, state, [9, 0]) != epochs(after, state, [3, 0])


def test_every_element_gets_its_own_draws_of_a_generator():
    dataset = tf.data.Dataset.range(20).map(of_a_generator)
    after = build(apply(RULE, dataset).after)

    assert epochs(dataset, GENERATOR.state, [5, 0, 0]) == epochs(after, GENERATOR.state, [5, 0, 0])


def test_optimizing_leaves_the_generator_where_it_was():
    layer = keras.layers.RandomRotation(0.2, seed=2)
    autopipe.optimize(images(layer).batch(3))
    assert layer.generator.state.numpy().tolist() == [2, 0]


def test_elements_of_any_structure_pass_through():
    def noisy(x):
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(3), [1, 2])
        return {"x": x, "noise": tf.random.uniform((), seed=7), "ragged": ragged}

    dataset = tf.data.Dataset.range(9).map(noisy)
    done = apply(RULE, dataset)
    assert len(done.steps) == 1
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


@pytest.mark.parametrize("keeps", [Keeps.SEQUENCE, Keeps.ELEMENTS])
def test_refuses_a_generator_that_may_be_shared_where_order_must_stay(keeps):
    assert_refuses(RULE, images(keras.layers.RandomFlip(seed=1)), "draws from a generator", keeps)


def test_refuses_draws_inside_a_branch():
    def sometimes(x):
        return tf.cond(x > 3, lambda: tf.random.uniform((), seed=7), lambda: 0.0)

    assert_refuses(RULE, tf.data.Dataset.range(9).map(sometimes), "inside a branch, a loop or a call")


def test_refuses_other_state_beside_the_draws():
    def printing(x):
        tf.print(x, output_stream="file:///dev/null")
        return tf.random.uniform((), seed=7)

    assert_refuses(RULE, tf.data.Dataset.range(9).map(printing), "keeps state (PrintV2)")


def test_refuses_what_is_slower():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, tf.data.Dataset.range(9).map(seeded), "measured 0.80x", answers=slower)


def test_does_not_match_what_draws_without_order_or_is_parallel_already():
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: tf.random.uniform(())))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(seeded, num_parallel_calls=2))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: x))


def test_refuses_a_draw_for_which_the_image_would_be_decoded_twice():
    def noisy(content):
        image = tf.cast(tf.io.decode_jpeg(content, channels=3), tf.float32)
        return image + tf.random.normal(tf.shape(image), seed=1)

    images = tf.data.Dataset.from_tensors(tf.io.encode_jpeg(tf.zeros([16, 16, 3], tf.uint8))).map(noisy)
    assert_refuses(RULE, images, "depends on work that the rest would do once more (DecodeJpeg")
