"""What is compiled gives what it gave, for all numbers there are; what XLA would do otherwise is not compiled."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.cheaper.compiled import _ARITHMETIC, compile_ending, is_compiled
from autopipe.pipeline.extract import function_of

IMAGES = tf.data.Dataset.from_tensors(np.zeros((40, 40, 3), np.float32))
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1e-30, 3e38, -3e38, 1.5, 2.5, -0.5, -2.5, 1e9, 255, 0.1], "float32"
)
LEFT, RIGHT = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
OPS = {
    "Abs": lambda a, b: tf.abs(a),
    "Add": lambda a, b: tf.raw_ops.Add(x=a, y=b),
    "AddV2": tf.add,
    "Cast": lambda a, b: tf.cast(a, tf.float16),
    "Ceil": lambda a, b: tf.math.ceil(a),
    "Cos": lambda a, b: tf.cos(tf.where(tf.abs(a) < 1e6, a, 0.5)),
    "Equal": tf.equal,
    "Exp": lambda a, b: tf.exp(a),
    "Floor": lambda a, b: tf.floor(a),
    "Greater": tf.greater,
    "Log": lambda a, b: tf.math.log(a),
    "Log1p": lambda a, b: tf.math.log1p(a),
    "Maximum": lambda a, b: tf.maximum(a, 0.3),
    "Mean": lambda a, b: tf.reduce_mean(tf.reshape(a, (len(SPECIAL), -1)), 1),
    "Minimum": lambda a, b: tf.minimum(a, 0.3),
    "MirrorPad": lambda a, b: tf.pad(a, [[2, 2]], "REFLECT"),
    "Mul": tf.multiply,
    "Neg": lambda a, b: -a,
    "RealDiv": tf.divide,
    "Reciprocal": lambda a, b: tf.math.reciprocal(a),
    "Round": lambda a, b: tf.round(a),
    "Rsqrt": lambda a, b: tf.math.rsqrt(a),
    "SelectV2": lambda a, b: tf.where(a > b, a, b),
    "Sigmoid": lambda a, b: tf.sigmoid(a),
    "Sin": lambda a, b: tf.sin(tf.where(tf.abs(a) < 1e6, a, 0.5)),
    "Sqrt": lambda a, b: tf.sqrt(a),
    "Square": lambda a, b: tf.square(a),
    "SquaredDifference": tf.math.squared_difference,
    "Sub": tf.subtract,
    "Tanh": lambda a, b: tf.tanh(a),
}


def images_map(function):
    return function_of(IMAGES.map(function))


def normalized(image):
    return (image / 255.0 + tf.random.uniform(()) - 0.4) / 0.2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OPS)
def test_an_op_that_may_be_compiled_gives_the_same_for_every_special_number(name):
    plain, compiled = (tf.function(OPS[name], jit_compile=each)(LEFT, RIGHT).numpy() for each in (False, True))
    np.testing.assert_allclose(compiled.astype("float64"), plain.astype("float64"), rtol=1e-5, atol=1e-37)


def test_all_arithmetic_that_may_be_compiled_is_compared():
    assert set(OPS) >= _ARITHMETIC


def test_a_branch_whose_tensors_have_no_known_shape_is_left_as_it_is():
    def branching(x):
        image = x * 2.0 - 1.0
        return tf.cond(tf.reduce_sum(x) > 0, lambda: image[: tf.cast(x[0, 0, 0], tf.int32)] * 3.0 - 1.0, lambda: image)

    assert compile_ending(images_map(branching)) is None


@pytest.mark.parametrize("lossy", [lambda a, b: tf.maximum(a, b), lambda a, b: tf.cast(a, tf.uint8)])
def test_what_is_left_out_is_left_out_for_a_reason(lossy):
    plain, compiled = (tf.function(lossy, jit_compile=each)(LEFT, RIGHT).numpy() for each in (False, True))
    assert not np.array_equal(compiled, plain, equal_nan=plain.dtype.kind == "f")


def test_complex_numbers_stay_outside():
    def turned(image):
        made = tf.complex(image * 2.0, image)
        return tf.math.real(made * made + made) * 1.5 + 2.0

    _, rest, _ = compile_ending(images_map(turned))
    assert not any(tensor.dtype.is_complex for op in rest.concrete.graph.get_operations() for tensor in op.outputs)


@pytest.mark.parametrize(("dtype", "compiled"), [(tf.uint8, False), (tf.float16, False), (tf.float32, True)])
def test_a_mean_whose_sum_may_be_too_large_on_one_side_stays_outside(dtype, compiled):
    def centred(image):
        mean = tf.reduce_mean(image, axis=0, keepdims=True)
        return tf.cast(mean + image, tf.float32) * 1.5 + 2.0

    images = tf.data.Dataset.from_tensors(tf.fill([40, 40, 3], tf.cast(200, dtype)))
    _, rest, _ = compile_ending(function_of(images.map(centred)))
    assert ("Mean" in [op.type for op in rest.concrete.graph.get_operations()]) == compiled


def test_draws_stay_outside_and_arithmetic_is_compiled():
    first, rest, compiled = compile_ending(images_map(normalized))
    assert effects(first).unseeded_random
    assert effects(rest).pure
    assert not is_compiled(first)
    assert is_compiled(compiled)


@pytest.mark.parametrize(
    "function",
    [
        normalized,
        lambda x: tf.image.random_brightness(tf.image.random_flip_left_right(x) / 2.0, 0.1),
        lambda x: {"image": x * 2.0 - 1.0, "again": x, "name": tf.constant("name")},
        lambda x: (tf.cast(tf.cast(x * 255.0, tf.uint8), tf.float32) / 127.5 - 1.0, tf.shape(x)),
        lambda x: tf.clip_by_value(tf.image.random_crop(x, (38, 38, 3)) * 1.5 - 0.2, 0.0, 1.0),
        lambda x: tf.image.per_image_standardization(x * 3.0 + 1.0),
    ],
)
def test_compiled_it_gives_what_it_gave(function):
    first, rest, compiled = compile_ending(images_map(function))
    image = tf.constant(np.random.default_rng(0).uniform(0, 1, (40, 40, 3)).astype("float32"))
    given = first.concrete(image)
    for ours, theirs in zip(compiled.concrete(*given), rest.concrete(*given), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if theirs.dtype == tf.string:
            assert ours == theirs
        else:
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / 255.0,
        lambda x: x[:4] * 2.0 - 1.0,
        lambda x: tf.reverse(tf.transpose(x), [0]),
        lambda x: tf.cast(x * 2.0 - 1.0, tf.uint8),
        lambda x: tf.debugging.check_numerics(x * 2.0 - 1.0, "not a number"),
        lambda x: tf.random.uniform((40, 40, 3)),
        tf.function(lambda x: x * 2.0 - 1.0, jit_compile=True),
    ],
    ids=["one pass", "few numbers", "moves only", "whole numbers", "may fail", "only draws", "compiled already"],
)
def test_what_has_nothing_to_fuse_or_could_change_is_not_compiled(function):
    assert compile_ending(images_map(function)) is None


OVERFLOWING = {
    "logarithm of an exponential": lambda x: tf.math.log(tf.exp(x)),
    "exponential by another": lambda x: tf.exp(x) / tf.exp(x * x),
    "exponential times another": lambda x: tf.exp(x) * tf.exp(x * x),
    "by an exponential": lambda x: x / tf.exp(x),
    "by a quotient": lambda x: x / (x / tf.reduce_max(x)),
    "root of a square": lambda x: tf.sqrt(tf.square(x)),
    "exponential of a logarithm": lambda x: tf.exp(tf.math.log(x)),
    "halves": lambda x: tf.cast(x, tf.float16) * 3.0 - 1.0,
    "bfloat16": lambda x: tf.cast(x, tf.bfloat16) * 3.0 - 1.0,
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_what_overflows_in_between_unless_xla_leaves_it_out_is_not_compiled(name):
    assert compile_ending(images_map(OVERFLOWING[name])) is None


@pytest.mark.parametrize("function", [lambda x: tf.math.log(tf.exp(x)), lambda x: tf.sqrt(tf.square(x))])
def test_of_what_is_undone_only_what_comes_after_it_is_compiled(function):
    _, rest, _ = compile_ending(images_map(lambda x: function(x) * 3.0 - 1.0))
    assert {op.type for op in rest.concrete.graph.get_operations()}.isdisjoint({"Exp", "Log", "Square", "Sqrt"})


def test_what_is_compiled_in_a_branch_is_compiled():
    compiled = tf.function(lambda x: x * 1.1 + 0.3, jit_compile=True)
    one = tf.data.Dataset.from_tensors([1.0])
    assert is_compiled(function_of(one.map(lambda x: tf.cond(x[0] > 9, lambda: compiled(x), lambda: x))))
    plain = tf.function(lambda x: x * 1.1 + 0.3, jit_compile=False)
    assert not is_compiled(function_of(one.map(plain)))


def test_texts_stay_outside():
    def label(path, image):
        return tf.strings.split(path, "/")[-2] == ["cat", "dog"], (image / 255.0 - 0.4) / 0.2

    files = tf.data.Dataset.from_tensors(("a/cat/1.jpg", np.zeros((40, 40, 3), np.float32)))
    first, rest, compiled = compile_ending(function_of(files.map(label)))
    assert all(tensor.dtype != tf.string for tensor in rest.element_inputs)
    found, image = compiled.concrete(*first.concrete("a/cat/1.jpg", np.ones((40, 40, 3), np.float32)))
    assert found.numpy().tolist() == [True, False]
    assert float(image[0, 0, 0]) == pytest.approx((1 / 255.0 - 0.4) / 0.2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.sqrt(x * x) * 2.0,
        lambda x: tf.math.log(tf.transpose(tf.exp(x))) * 2.0,
        lambda x: tf.math.log(tf.reshape(tf.exp(x), [-1])) * 2.0,
        lambda x: (x / tf.reduce_max(x)) / tf.reduce_mean(x) * 2.0,
        lambda x: tf.sqrt(tf.math.squared_difference(x, 0.5)) * 2.0,
        lambda x: tf.math.log(tf.identity_n([x, tf.exp(x)])[1]) * 2.0,
    ],
    ids=["root of a product", "turned", "reshaped", "quotient divided", "a difference", "one of two"],
)
def test_what_xla_leaves_out_is_not_compiled_however_it_is_written(function):
    assert (
        compile_ending(function_of(tf.data.Dataset.from_tensors(np.zeros((40, 40, 3), np.float32)).map(function)))
        is None
    )
