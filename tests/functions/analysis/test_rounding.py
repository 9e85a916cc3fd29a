"""What makes more of the last bits of a float."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.rounding import jumps, jumps_after_regrouping, rounds_alike
from autopipe.functions.joined.compose import compose
from autopipe.functions.parts.cut import split
from autopipe.pipeline.extract import extract, function_of

FLOATS = tf.data.Dataset.from_tensors({"x": np.ones((4, 4, 3), np.float32), "y": 3})

CONTINUOUS = {
    "arithmetic": lambda e: tf.clip_by_value(e["x"] * 2.0 - 1.0, -1.0, 1.0),
    "resize": lambda e: tf.image.resize(e["x"], (2, 2)),
    "the shape": lambda e: tf.reshape(e["x"], (tf.shape(e["x"])[0], -1)),
    "a root of squares": lambda e: tf.sqrt(tf.reduce_sum(e["x"] * e["x"]) + 1e-6),
    "a quotient by what is above 0": lambda e: e["x"] / (tf.abs(e["x"]) + 1e-6),
    "whole numbers": lambda e: e["y"] % 2 == 0,
    "normalized": lambda e: tf.image.per_image_standardization(e["x"]),
    "a spectrum": lambda e: tf.math.log(tf.abs(tf.signal.stft(tf.reshape(e["x"], [-1]), 16, 8)) + 1e-6),
    "a draw": lambda e: tf.image.random_flip_left_right(e["x"]),
    "a logarithm of one more than what is above 0": lambda e: tf.math.log1p(tf.exp(e["x"])),
    "a logarithm of one more than a count": lambda e: tf.math.log1p(tf.cast(e["y"], tf.float32) * e["x"]),
    "a logarithm of one more than what is cut at 0": lambda e: tf.math.log1p(tf.maximum(e["x"] - 0.5, 0.0)),
    "a branch by a whole number": lambda e: tf.cond(e["y"] > 2, lambda: e["x"] * 2, lambda: e["x"]),
}
JUMPING = {
    "comparison": (lambda e: e["x"] > 0.5, "Greater"),
    "whole number of a float": (lambda e: tf.cast(e["x"] * 255, tf.uint8), "Cast"),
    "rounding": (lambda e: tf.round(e["x"]), "Round"),
    "quantized": (lambda e: tf.quantization.fake_quant_with_min_max_args(e["x"]), "FakeQuantWithMinMaxArgs"),
    "quantized by variables": (
        lambda e: tf.quantization.fake_quant_with_min_max_vars(e["x"], 0.0, 1.0),
        "FakeQuantWithMinMaxVars",
    ),
    "quantized by channel": (
        lambda e: tf.quantization.fake_quant_with_min_max_vars_per_channel(e["x"], [0.0] * 3, [1.0] * 3),
        "FakeQuantWithMinMaxVarsPerChannel",
    ),
    "quantized and back": (
        lambda e: tf.quantization.quantize_and_dequantize_v2(e["x"], 0.0, 1.0),
        "QuantizeAndDequantizeV4",
    ),
    "a box taken from an image": (
        lambda e: tf.image.crop_and_resize(e["x"][None], e["x"][:1, 0, :1] * [[0.1, 0.1, 0.9, 0.9]], [0], (2, 2)),
        "CropAndResize",
    ),
    "the nearest of a turned image": (
        lambda e: tf.raw_ops.ImageProjectiveTransformV3(
            images=e["x"][None],
            transforms=[[1.0] * 8] * e["x"][0, 0, 0],
            output_shape=[4, 4],
            fill_value=0.0,
            interpolation="NEAREST",
        ),
        "ImageProjectiveTransformV3",
    ),
    "a division that gives 0": (lambda e: tf.math.divide_no_nan(1.0, e["x"]), "DivNoNan"),
    "an angle": (lambda e: tf.atan2(e["x"], -1.0), "Atan2"),
    "an angle of a complex number": (lambda e: tf.math.angle(tf.complex(e["x"], e["x"])), "Angle"),
    "an angle of what may be too large": (lambda e: tf.acos(e["x"]), "Acos"),
    "a hue": (lambda e: tf.image.rgb_to_hsv(e["x"]), "RGBToHSV"),
    "what is infinite at 0": (lambda e: tf.math.reciprocal(e["x"]), "Reciprocal"),
    "a root of what may be below 0": (lambda e: tf.sqrt(1.0 - e["x"]), "Sqrt"),
    "a root of a sum": (lambda e: tf.sqrt(e["x"] + 0.2), "Sqrt"),
    "a root of a sum of whole numbers": (lambda e: tf.sqrt(tf.cast(e["y"], tf.float32) + e["x"] * 0), "Sqrt"),
    "a root of a product of matrices": (lambda e: tf.sqrt(tf.matmul(e["x"], e["x"], transpose_b=True)), "Sqrt"),
    "a logarithm of the least difference": (
        lambda e: tf.math.log(tf.cast(tf.reduce_min(e["x"] - 1.0), tf.float64)),
        "Log",
    ),
    "a quotient by what may cross 0": (lambda e: 1.0 / (e["x"] + 0.2), "RealDiv"),
    "a logarithm of what may be 0": (lambda e: tf.math.log1p(-tf.sigmoid(e["x"])), "Log1p"),
    "what is infinite at 1": (lambda e: tf.math.erfinv(e["x"]), "Erfinv"),
    "a quantile, infinite at 0 and at 1": (lambda e: tf.math.ndtri(e["x"]), "Ndtri"),
    "a root of a matrix": (lambda e: tf.linalg.cholesky(e["x"][..., :2, :2]), "Cholesky"),
    "a product that 0 makes 0": (lambda e: tf.math.multiply_no_nan(1.0, e["x"]), "MulNoNan"),
    "numbers drawn by others": (
        lambda e: tf.random.stateless_poisson([3], [1, 2], e["x"][0, 0], tf.float32),
        "StatelessRandomPoisson",
    ),
    "a draw of a kind that they choose": (
        lambda e: tf.random.stateless_gamma([3], [1, 2], e["x"][0, 0]),
        "StatelessRandomGammaV3",
    ),
    "boxes drawn into an image": (
        lambda e: tf.image.draw_bounding_boxes(tf.zeros([1, 8, 8, 3]), tf.transpose(e["x"])[:1], [[1.0]]),
        "DrawBoundingBoxesV2",
    ),
    "text": (lambda e: tf.strings.as_string(e["x"]), "AsString"),
    "the largest": (lambda e: tf.argmax(e["x"]), "ArgMax"),
    "in a branch": (lambda e: tf.cond(e["y"] > 2, lambda: tf.floor(e["x"]), lambda: e["x"]), "Floor"),
    "python": (lambda e: tf.numpy_function(lambda x: x > 0, [e["x"]], tf.bool), "PyFunc"),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_what_is_continuous_does_not_jump(name):
    assert jumps(function_of(FLOATS.map(CONTINUOUS[name]))) is None


@pytest.mark.parametrize("name", JUMPING)
def test_what_decides_by_a_float_jumps(name):
    function, op = JUMPING[name]
    assert jumps(function_of(FLOATS.map(function))) == op


def test_long_chains_of_sums_and_those_that_share_terms_are_judged_at_once():
    def iterated(x):
        y = tf.abs(x) + 1.0
        for _ in range(400):
            y = 0.5 * (y + tf.square(x) / y)
        return tf.math.log(y)

    assert jumps(function_of(MATRICES.map(iterated))) is None


def scaled(x):
    first = x * 0.1
    return first, first * 0.7


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (scaled, lambda a, b: b),
        (lambda x: {"raw": x + 0.5, "norm": (x + 0.5) + 0.25 + 0.1}, lambda parts: parts["norm"]),
        (lambda x: (x, (x + 0.1) + 0.2), lambda x, y: ((x + 0.1) * 3, y)),
    ],
    ids=["dropped later", "written twice", "needed again later"],
)
def test_what_another_op_needs_too_is_taken_otherwise_once_it_does_no_more(first, then):
    node = extract(MATRICES.map(first).map(then))
    assert not rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)


def test_what_is_needed_once_before_and_after_rounds_alike():
    node = extract(MATRICES.map(lambda x: tf.abs(x + 0.1 + 0.2)).map(tf.negative))
    assert rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)


FACTOR = tf.Variable(1.5)
MATRICES = tf.data.Dataset.from_tensor_slices(np.ones((2, 4, 4), np.float32))


def constants_twice(x):
    offset = tf.constant(0.1) * tf.constant(0.3) * tf.constant(0.7)
    return tf.cumsum(x) + offset + FACTOR * offset


def element_twice(x):
    scaled = x * FACTOR * 0.3
    return tf.cumsum(x) + 0.1 + 0.2 + scaled[:, :1] * scaled[:1]


@pytest.mark.parametrize("function", [constants_twice, element_twice])
def test_a_sum_that_is_cut_rounds_otherwise_though_both_parts_repeat_another(function):
    fn = function_of(MATRICES.map(function))
    graph = fn.concrete.graph
    (summed,) = (op for op in graph.get_operations() if op.type == "Cumsum")
    (added,) = summed.outputs[0].consumers()
    more = [tensor for op in graph.get_operations() for tensor in op.outputs if op.type == "Mul"]
    assert not rounds_alike(fn, *split(fn, [added.outputs[0], *fn.element_inputs]))
    assert not rounds_alike(fn, *split(fn, [added.outputs[0], more[1], *fn.element_inputs]))
    assert rounds_alike(fn, *split(fn, [summed.outputs[0], *fn.element_inputs]))


@pytest.mark.parametrize(
    ("function", "jump"),
    [
        (lambda x: tf.sqrt((tf.reduce_sum(x * x) - tf.reduce_sum(x) ** 2 / 8.0) / 7.0), "Sqrt"),
        (lambda x: tf.sqrt(x * x - 2.0 * x * x + x * x), "Sqrt"),
        (lambda x: (x - tf.reduce_mean(x)) ** 0.5, "Pow"),
        (lambda x: tf.pow(x, tf.reduce_sum(x)), "Pow"),
        (lambda x: (x - tf.reduce_mean(x)) ** 2.0, None),
        (lambda x: tf.sqrt(tf.reduce_sum(x * x)), None),
        (lambda x: tf.sqrt(tf.exp(x - 1.0)), None),
    ],
)
def test_a_root_of_what_comes_of_a_difference_is_a_jump(function, jump):
    assert jumps(function_of(tf.data.Dataset.from_tensors([0.5] * 8).map(function))) == jump


def test_the_logarithm_of_a_softmax_whose_gradient_is_stopped_is_one_op_too():
    fn = function_of(MATRICES.map(lambda x: tf.math.log(tf.stop_gradient(tf.nn.softmax(x)))))
    assert jumps_after_regrouping(fn) == "Log"


@pytest.mark.parametrize("crossing", [lambda: tf.constant(0.3), lambda: tf.sqrt(tf.constant(0.3))])
def test_a_constant_that_one_function_hands_to_the_other_makes_their_pairs_round_otherwise(crossing):
    def both(x, c):
        return (x + c) + 0.7

    floats = tf.data.Dataset.from_tensors(0.5)
    node = extract(floats.map(lambda x: (x, crossing())).map(both))
    assert not rounds_alike(compose(node.input.fn, node.fn), node.input.fn, node.fn)
    varying = extract(floats.map(lambda x: (x, tf.abs(x))).map(both))
    assert rounds_alike(compose(varying.input.fn, varying.fn), varying.input.fn, varying.fn)
