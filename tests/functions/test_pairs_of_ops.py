"""What two maps compute is compared with what one map of both does: what differs is told to be rounded otherwise."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.rounding import rounds_alike
from autopipe.functions.joined.compose import compose
from autopipe.pipeline.extract import extract

DRAW = np.random.default_rng(0)
ROW, MEANS, SPREADS, OFFSETS = (DRAW.uniform(0.2, 2, 8).astype("float32") for _ in range(4))
WEIGHTS = DRAW.uniform(-1, 1, (8, 8)).astype("float32")
FILTERS = DRAW.uniform(-1, 1, (3, 3, 8, 8)).astype("float32")
VARIABLE = tf.Variable(ROW)


def normalized(x, training=False):
    means, spreads = (None, None) if training else (MEANS, SPREADS)
    return tf.compat.v1.nn.fused_batch_norm(x, ROW, OFFSETS, means, spreads, is_training=training)[0]


def padded(x):
    return tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])


def depthwise(x):
    return tf.nn.depthwise_conv2d(x, FILTERS[..., :1], [1, 1, 1, 1], "SAME")


# Of numbers above 0.
EACH = {
    "add": lambda x: x + 0.1,
    "add a row": lambda x: x + ROW,
    "add a variable": lambda x: x + VARIABLE,
    "subtract": lambda x: x - 0.3,
    "subtract a row": lambda x: x - ROW,
    "subtract from": lambda x: 0.7 - x,
    "multiply": lambda x: x * 0.1,
    "multiply by a row": lambda x: x * ROW,
    "divide": lambda x: x / 255.0,
    "divide by a row": lambda x: x / ROW,
    "divide it": lambda x: 0.7 / x,
    "add nothing": lambda x: x + 0.0,
    "multiply by one": lambda x: x * 1.0,
    "multiply by ones": lambda x: x * tf.ones_like(x),
    "negative": tf.negative,
    "twice negative": lambda x: tf.negative(-x),
    "add negative": lambda x: 0.3 + (-x),
    "subtract negative": lambda x: 0.3 - (-x),
    "add its half negative": lambda x: x - (-(x * 0.5)),
    "square": tf.square,
    "root": lambda x: tf.sqrt(tf.abs(x)),
    "root alone": tf.sqrt,
    "inverse root": lambda x: tf.math.rsqrt(tf.abs(x)),
    "divide by the root": lambda x: 1.3 / tf.sqrt(x),
    "exponential": tf.exp,
    "logarithm": tf.math.log,
    "logarithm of one more": lambda x: tf.math.log(1.0 + x),
    "exponential less one": lambda x: tf.exp(x) - 1.0,
    "log1p": tf.math.log1p,
    "expm1": tf.math.expm1,
    "reciprocal": tf.math.reciprocal,
    "inverse": lambda x: tf.raw_ops.Inv(x=x),
    "power of 2": lambda x: x**2.0,
    "power of 3": lambda x: x**3.0,
    "power of a half": lambda x: tf.abs(x) ** 0.5,
    "power of a half alone": lambda x: x**0.5,
    "power of -1": lambda x: x**-1.0,
    "power of -0.5": lambda x: x**-0.5,
    "power of 1.7": lambda x: tf.abs(x) ** 1.7,
    "by itself": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "to itself": lambda x: x + x,
    "sum of five": lambda x: tf.add_n([x, x, x, x, x]),
    "sum of two parts": lambda x: x * 0.5 + x * 0.3,
    "largest": lambda x: tf.reduce_max(x, -1, keepdims=True) - x * 0.5,
    "place of the largest": lambda x: tf.cast(tf.argmax(x, -1), tf.float32)[..., None] * tf.ones_like(x),
    "sum": lambda x: tf.reduce_sum(x, -1, keepdims=True) * tf.ones_like(x),
    "mean": lambda x: tf.reduce_mean(x, -1, keepdims=True) + tf.zeros_like(x),
    "spread": lambda x: tf.math.reduce_std(x, -1, keepdims=True) + x,
    "by the largest": lambda x: x * tf.reduce_max(x),
    "divide by the sum": lambda x: x / tf.reduce_sum(x, -1, keepdims=True),
    "length of 1": lambda x: tf.math.l2_normalize(x, -1),
    "sums so far": lambda x: tf.cumsum(x, -1),
    "difference squared": lambda x: tf.math.squared_difference(x, 0.4),
    "at least": lambda x: tf.maximum(x, 0.5),
    "clipped": lambda x: tf.clip_by_value(x, 0.2, 1.4),
    "abs": tf.abs,
    "sign": tf.sign,
    "softmax": tf.nn.softmax,
    "log of softmax": tf.nn.log_softmax,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "softplus": tf.nn.softplus,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "leaky relu": tf.nn.leaky_relu,
    "elu": tf.nn.elu,
    "swish": tf.nn.swish,
    "gelu": tf.nn.gelu,
    "gelu by tanh": lambda x: tf.nn.gelu(x, True),
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "erf": tf.math.erf,
    "sine": tf.sin,
    "few bits": lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32),
    "many bits": lambda x: tf.cast(tf.cast(x, tf.float64) * 0.1, tf.float32),
    "bias": lambda x: tf.nn.bias_add(x, ROW),
    "bias, then relu": lambda x: tf.nn.relu(tf.nn.bias_add(x, ROW)),
    "bias, then tanh": lambda x: tf.tanh(tf.nn.bias_add(x, ROW)),
    "bias, then gelu": lambda x: tf.nn.gelu(tf.nn.bias_add(x, ROW)),
    "bias, then leaky relu": lambda x: tf.nn.leaky_relu(tf.nn.bias_add(x, ROW)),
    "reshape": lambda x: tf.reshape(x, x.shape[::-1]),
    "transpose": tf.transpose,
    "transpose twice": lambda x: tf.transpose(tf.transpose(x)),
}
OF_MATRICES = {
    "product": lambda x: tf.matmul(x, WEIGHTS),
    "product of what is transposed": lambda x: tf.matmul(x, WEIGHTS, transpose_a=True),
    "product with itself": lambda x: tf.matmul(x, tf.transpose(x)),
    "product with another": lambda x: tf.matmul(tf.transpose(x), x),
    "product of a part": lambda x: tf.matmul(x * 0.3, WEIGHTS),
    "dense": lambda x: tf.nn.bias_add(tf.matmul(x, WEIGHTS), ROW),
    "product and a row": lambda x: tf.matmul(x, WEIGHTS) + ROW,
    "einsum": lambda x: tf.einsum("ij,jk->ik", x, WEIGHTS),
}
OF_IMAGES = {
    "convolved": lambda x: tf.nn.conv2d(x, FILTERS, 1, "SAME"),
    "convolved within": lambda x: tf.nn.conv2d(x, FILTERS, 1, "VALID"),
    "convolved and bias": lambda x: tf.nn.bias_add(tf.nn.conv2d(x, FILTERS, 1, "SAME"), ROW),
    "each channel convolved": depthwise,
    "each channel convolved and bias": lambda x: tf.nn.bias_add(depthwise(x), ROW),
    "padded": padded,
    "normalized": normalized,
    "normalized by itself": lambda x: normalized(x, training=True),
    "normalized, then relu": lambda x: tf.nn.relu(normalized(x)),
    "products": lambda x: tf.matmul(x, tf.tile(WEIGHTS[None, None], [1, 6, 1, 1])),
}
SHAPES = {"matrix": [8, 8], "image": [1, 6, 8, 8]}
MET_BY = {
    **{("matrix", name): EACH | OF_MATRICES for name in EACH | OF_MATRICES},
    **{("image", name): OF_IMAGES for name in EACH},
    **{("image", name): EACH | OF_IMAGES for name in OF_IMAGES},
}


@cache
def given_by(op, spec):
    """Return what an op makes of such a tensor; ``None`` where it takes no such."""
    try:
        (made,) = tf.function(op, autograph=False).get_concrete_function(spec).outputs
    except ValueError:
        return None
    return tf.TensorSpec(made.shape, made.dtype)


def unconverted(function):
    return tf.autograph.experimental.do_not_convert(function)


def results(element, *functions):
    """Return what the one element of a dataset becomes, as bytes, with nothing counted on the way."""
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensors(element).with_options(options)
    for function in functions:
        dataset = dataset.map(unconverted(function))
    return [tensor.numpy().tobytes() for tensor in next(iter(dataset))]


def said_to_round_alike(element, first, then):
    node = extract(tf.data.Dataset.from_tensors(element).map(unconverted(first)).map(unconverted(then)))
    return rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)


def differing(element, first, functions):
    """Return the names of those functions that give other bits in one function with the first."""

    def apart(*elements):
        return tuple(first(each) for each in elements)

    def after(*elements):
        return tuple(function(each) for function, each in zip(functions.values(), elements, strict=True))

    copies = (element,) * len(functions)
    two, one = results(copies, apart, after), results(copies, lambda *elements: after(*apart(*elements)))
    return [name for name, *each in zip(functions, one, two, strict=True) if each[0] != each[1]]


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "name"), MET_BY)
def test_what_differs_where_two_ops_meet_is_not_said_to_round_alike(kind, name):
    first = (EACH | OF_MATRICES | OF_IMAGES)[name]
    element = tf.constant(np.random.default_rng(1).uniform(0.1, 3, SHAPES[kind]), tf.float32)
    made = given_by(first, tf.TensorSpec(element.shape))
    met = {name: op for name, op in MET_BY[kind, name].items() if given_by(op, made)}
    assert [each for each in differing(element, first, met) if said_to_round_alike(element, first, met[each])] == []
