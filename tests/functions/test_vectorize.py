"""A vectorized function gives for a batch what the function gives for each element."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.vectorize import NotVectorizableError, computes_exactly, vectorize
from autopipe.pipeline.extract import extract

IMAGES = np.random.default_rng(0).random((6, 4, 5, 3)).astype("float32")

FUNCTIONS = {
    "normalize": (lambda x: (x - 0.5) / 0.25, True),
    "flip": (lambda x: tf.reverse(x, [1]), True),
    "crop": (lambda x: x[1:3, 2:], True),
    "structure": (lambda x: {"image": x, "label": (tf.one_hot(1, 4), x[0, 0, 0] > 0.5)}, True),
    "constant": (lambda x: tf.constant([1, 2]), True),
    "rescaling layer": (keras.layers.Rescaling(2.0, offset=1.0), True),
    "gamma": (lambda x: x**2.2, False),
    "reduction": (lambda x: tf.reduce_mean(x, axis=[0, 1]), False),
    "matrix": (lambda x: tf.linalg.matmul(x[..., 0], x[..., 1], transpose_b=True), False),
    "branch": (lambda x: tf.cond(x[0, 0, 0] > 0.5, lambda: x * 2, lambda: x), False),
    "argmax": (lambda x: tf.argmax(tf.reshape(x, [-1])), False),
    "clip": (lambda x: tf.clip_by_value(x, 0.2, 0.8), True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("static", [None, 6])
def test_equals_the_function_of_each_element(name, static):
    function, exact = FUNCTIONS[name]
    fn = extract(tf.data.Dataset.from_tensor_slices(IMAGES).map(function)).fn

    batched = vectorize(fn, static).concrete(tf.constant(IMAGES))

    one_by_one = [fn.concrete(tf.constant(image)) for image in IMAGES]
    for ours, theirs in zip(batched, zip(*one_by_one, strict=True), strict=True):
        compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
        compare(ours.numpy(), tf.stack(theirs).numpy(), **({} if exact else {"rtol": 1e-5}))
    assert computes_exactly(fn) or not exact


def test_the_batched_form_has_the_spec_of_a_batch():
    made = tf.data.Dataset.from_tensor_slices(IMAGES).map(lambda x: {"x": x, "sum": tf.reduce_sum(x)})
    batched = vectorize(extract(made).fn, None)
    assert batched.output_spec == made.batch(2).element_spec
    assert batched.name == "vectorized <lambda>"


@pytest.mark.filterwarnings("ignore")
def test_a_function_with_effects_is_refused():
    made = tf.data.Dataset.range(3).map(lambda x: tf.random.uniform(()))
    with pytest.raises(NotVectorizableError, match="which a batch would do once for all its elements"):
        vectorize(extract(made).fn, None)


def test_an_op_without_a_batched_form_is_named():
    made = tf.data.Dataset.from_tensor_slices(["x"]).map(lambda x: tf.strings.regex_replace(x, "a", "b"))
    with pytest.raises(NotVectorizableError, match="StaticRegexReplace"):
        vectorize(extract(made).fn, None)
