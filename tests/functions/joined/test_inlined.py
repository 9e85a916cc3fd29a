"""Calls give way to what they call, where nobody can see a difference."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.joined.inlined import inlined
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract

ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
FACTOR = tf.Variable(2.0)
GENERATOR = tf.random.Generator.from_seed(3)


@tf.function
def scaled(x):
    return (x / 255.0 - 0.5) / 0.25


@tf.function
def nested(x):
    return tf.reverse(scaled(x), [0]), x


@tf.function
def augmented(x):
    x = tf.cond(tf.random.uniform((), seed=3) < 0.5, lambda: scaled(x), lambda: x)
    return tf.reduce_max(x), x


@tf.function
def by_a_variable(x):
    return x * FACTOR


@tf.function
def checked(x):
    tf.debugging.assert_less(x, 2.0, "too much")
    return x


@tf.function(jit_compile=True)
def compiled(x):
    return tf.sin(x)


@tf.function
def plus(x):
    return x + 0.1


@tf.function
def printed(x):
    tf.print("seen", output_stream="file:///dev/null")
    return x


def given():
    return tf.data.Dataset.from_tensor_slices(ROWS)


def ops(dataset):
    return {op.type for op in extract(dataset).fn.concrete.graph.get_operations()}


def bits(dataset):
    return [[part.numpy().tobytes() for part in tf.nest.flatten(element)] for element in dataset]


CALLS = {
    "one": lambda x: scaled(x),
    "a call in a call": lambda x: nested(x),
    "several": lambda x: (scaled(x), nested(tf.abs(x)), scaled(scaled(x))),
    "in a branch": lambda x: tf.cond(x[0] > 0, lambda: scaled(x), lambda: x),
    "what is only passed on": lambda x: tf.function(lambda y: (y, y))(x),
    "in a structure": lambda x: {"a": nested(x), "b": x},
    "of seeds": lambda x: augmented(x),
    "of a variable": lambda x: by_a_variable(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_without_calls_gives_the_same_bits(name):
    tf.random.set_seed(7)
    try:
        dataset = given().map(CALLS[name])
        assert not any("Call" in each for each in ops(dataset))
        rebuilt = build(extract(dataset))
        assert rebuilt.element_spec == dataset.element_spec
        assert bits(rebuilt) == bits(dataset)
    finally:
        tf.random.set_seed(None)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: compiled(x), id="compiled"),
        pytest.param(lambda x: plus(x) + 0.2 + plus(x + 0.3), id="sums on both sides"),
        pytest.param(lambda x: printed(x), id="what leaves traces"),
    ],
)
def test_a_call_stays_where_there_is_more_to_it(function):
    dataset = given().map(function)
    assert any("Call" in each for each in ops(dataset))
    assert bits(build(extract(dataset))) == bits(dataset)


def test_a_function_without_calls_is_itself():
    fn = extract(given().map(lambda x: x * 2)).fn
    assert inlined(fn) is fn


def test_a_pipeline_that_is_read_twice_has_the_same_function():
    dataset = given().map(scaled)
    assert extract(dataset).fn == extract(dataset).fn


def test_variables_and_generators_stay_live():
    FACTOR.assign(2.0)
    dataset = build(extract(given().map(by_a_variable)))
    np.testing.assert_array_equal(np.stack(list(dataset)), ROWS * 2)
    FACTOR.assign(3.0)
    np.testing.assert_array_equal(np.stack(list(dataset)), ROWS * 3)

    drawing = given().map(tf.function(lambda x: GENERATOR.uniform(())))
    GENERATOR.reset_from_seed(3)
    expected = bits(drawing)
    GENERATOR.reset_from_seed(3)
    assert bits(build(extract(drawing))) == expected


def test_an_assertion_in_a_call_still_holds():
    dataset = build(extract(given().map(lambda x: checked(tf.reduce_max(x)) * 0)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="too much"):
        list(dataset)


def test_what_a_tf_function_does_is_cut_and_cached_like_any_other():
    from autopipe import optimize

    @tf.function
    def load(contents):
        image = tf.io.decode_jpeg(contents, channels=3)
        return tf.image.random_flip_left_right(tf.image.resize(image, (48, 48)))

    picture = np.random.default_rng(0).integers(0, 255, (200, 240, 3), dtype=np.uint8)
    files = [tf.io.encode_jpeg(picture).numpy()] * 40
    dataset = tf.data.Dataset.from_tensor_slices(files).map(load).batch(8)
    assert "cache_fixed_work" in optimize(dataset).plan.rules


def test_what_is_not_to_be_compiled_is_a_call_like_any_other():
    plain, compiled = (tf.function(lambda x: tf.sin(x) * 2.0, jit_compile=each) for each in (False, True))
    calls = [
        [op.type for op in extract(tf.data.Dataset.from_tensors(1.0).map(each)).fn.concrete.graph.get_operations()]
        for each in (plain, compiled)
    ]
    assert ["Sin" in each for each in calls] == [True, False]
