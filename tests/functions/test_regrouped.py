"""Pairs of ops that TensorFlow computes at once are known, so that what parts or joins them rounds otherwise."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.rounding import rounds_alike
from autopipe.functions.joined.compose import compose
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
DRAW = np.random.default_rng(0)
ROWS = Dataset.from_tensor_slices(DRAW.uniform(0.1, 3, (9, 4, 4)).astype("float32"))
IMAGES = Dataset.from_tensor_slices(DRAW.uniform(0.1, 3, (9, 1, 6, 8, 4)).astype("float32"))
WEIGHTS = DRAW.uniform(-1, 1, (4, 4)).astype("float32")
FILTERS = DRAW.uniform(-1, 1, (3, 3, 4, 4)).astype("float32")
BIAS = [0.1, 0.2, 0.3, 0.4]


def dense(x):
    return tf.nn.bias_add(tf.matmul(x, WEIGHTS), BIAS)


def dense_of_a_sum(x):
    return tf.matmul(x, WEIGHTS) + BIAS


def convolved(x):
    return tf.nn.conv2d(x, FILTERS, 1, "SAME")


def normalized(x):
    return tf.compat.v1.nn.fused_batch_norm(x, BIAS, BIAS, BIAS, BIAS, is_training=False)[0]


def logarithm_of_one_more(x):
    return tf.math.log(1.0 + x)


def mish(x):
    return x * tf.tanh(tf.nn.softplus(x))


def rounding_alike(dataset, first, then):
    node = extract(dataset.map(first).map(then))
    return rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)


OF_ROWS = {
    "a root as a power, divided by": (lambda x: (x, tf.reduce_mean(x) ** 0.5), lambda x, root: x / root),
    "a cube, multiplied": (lambda x: x**3.0, lambda cube: cube * 0.1),
    "what is negated, taken away from a sum": (lambda x: (x + 0.1, -x), lambda a, b: a - b),
    "a sum, what is negated taken away": (lambda x: x + 0.1, lambda more: 0.3 - (-more)),
    "a sum, negated": (lambda x: x + 0.1, tf.negative),
    "what is turned, multiplied by a matrix": (tf.transpose, lambda turned: tf.matmul(turned, WEIGHTS)),
    "a product of matrices, and a bias": (lambda x: tf.matmul(x, WEIGHTS), lambda x: tf.nn.bias_add(x, BIAS)),
    "a product of matrices, and a sum": (lambda x: tf.matmul(x, WEIGHTS), lambda product: product + BIAS),
    "dense, then tanh": (dense, tf.tanh),
    "dense, then elu": (dense, tf.nn.elu),
    "dense, then sigmoid": (dense, tf.sigmoid),
    "dense of a sum, then tanh": (dense_of_a_sum, tf.tanh),
    "a sum of many, multiplied": (lambda x: tf.add_n([x, x, x]), lambda total: total * 0.1),
    "tanh, then mish": (tf.tanh, mish),
    "products of one factor, added": (lambda x: (x * 0.3, x * 0.7), tf.add),
    "swish, multiplied": (tf.nn.swish, lambda swish: swish * 0.3),
    "what a function gives, needed further": (logarithm_of_one_more, tf.negative),
}
OF_IMAGES = {
    "convolved, and a bias": (convolved, lambda x: tf.nn.bias_add(x, BIAS)),
    "convolved, then normalized": (convolved, normalized),
    "normalized, then relu": (normalized, tf.nn.relu),
    "normalized, then added to": (normalized, lambda x: x + 0.3),
    "multiplied, then normalized": (lambda x: x * 0.3, normalized),
    "a sum of many, convolved": (lambda x: tf.add_n([x, x, x]), convolved),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_what_two_functions_part_and_one_computes_at_once_rounds_otherwise(name):
    assert not rounding_alike(ROWS, *OF_ROWS[name])


@pytest.mark.parametrize("name", OF_IMAGES)
def test_what_is_done_to_images_at_once_rounds_otherwise_too(name):
    assert not rounding_alike(IMAGES, *OF_IMAGES[name])


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (tf.sqrt, tf.abs),
        (tf.abs, tf.negative),
        (lambda x: x * 0.3, tf.nn.relu),
        (lambda x: x + 0.3, lambda more: more * 0.3),
        (lambda x: tf.matmul(x, WEIGHTS), tf.nn.relu),
        (lambda x: (x * 0.3, tf.abs(x) * 0.7), tf.add),
        (tf.transpose, lambda turned: turned * 0.1),
    ],
)
def test_other_pairs_round_alike(first, then):
    assert rounding_alike(ROWS, first, then)


@pytest.mark.parametrize("between", [tf.stop_gradient, lambda x: tf.reshape(x, [4, 4])], ids=["stopped", "reshaped"])
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (lambda x: x + 0.1, lambda x: x + 0.2),
        (tf.nn.softmax, tf.math.log),
        (lambda x: x**3.0, lambda x: x * 0.1),
        (tf.tanh, lambda x: x * tf.tanh(tf.nn.softplus(x))),
    ],
)
def test_a_pair_is_seen_behind_what_tensorflow_leaves_out(first, then, between):
    node = extract(ROWS.map(first).map(lambda x: tf.abs(then(between(x)))))
    assert not rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)
