"""Cheaper ops give the same bits, and take the place of nothing else than what they equal."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given
from hypothesis import strategies as st

from autopipe.functions.analysis.failures import may_fail
from autopipe.functions.cheaper import cheaper_ops as module
from autopipe.functions.cheaper.cheaper_ops import cheaper_ops
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract, function_of
from autopipe.pipeline.ir import Map

SIDES = (48, 40, 3)
NUMBERS = [0.485, 0.456, 0.406]
CHANNELS = st.sampled_from([2, 3, 4, 16])
BY_VALUE = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": tf.divide,
    "max": tf.maximum,
    "min": tf.minimum,
    "squared difference": tf.math.squared_difference,
    "equal": tf.equal,
    "not equal": tf.not_equal,
    "less": tf.less,
    "less equal": tf.less_equal,
    "greater": tf.greater,
    "greater equal": tf.greater_equal,
    "raw add": lambda x, y: tf.raw_ops.Add(x=x, y=y),
}


def traced(function, spec):
    def pieces():
        raise AssertionError("It is only traced.")
        yield

    return function_of(tf.data.Dataset.from_generator(pieces, output_signature=spec).map(function))


def swapped(function, *specs):
    return cheaper_ops(traced(function, specs if len(specs) > 1 else specs[0]))


def floats(shape, dtype=np.float32):
    numbers = np.random.default_rng(0).normal(size=shape).astype(dtype)
    if numbers.size > 8 and np.issubdtype(dtype, np.floating):
        numbers.flat[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).tiny / 2]
    return numbers


def assert_same_bits(found, *values):
    """Run the function and the one with cheaper ops on an element, as a map does."""
    (old,) = found.fn.keeps_alive
    given = extract(tf.data.Dataset.from_tensors(values if len(values) > 1 else values[0]))
    one, other = (next(iter(build(Map(input=given, fn=fn)))) for fn in (old, found.fn))
    for left, right in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.numpy().tobytes() == right.numpy().tobytes()


def of(shape, dtype=tf.float32):
    return tf.TensorSpec(shape, dtype)


IMAGES = {
    "turned along one axis": (lambda x: x[:, ::-1], "x[::-1] by reverse"),
    "turned upside down": (lambda x: x[::-1], "x[::-1] by reverse"),
    "channels the other way": (lambda x: x[..., ::-1], "x[::-1] by reverse"),
    "all axes at once": (lambda x: x[::-1, ::-1, ::-1], "x[::-1] by reverse"),
    "after an ellipsis": (lambda x: x[..., ::-1, :], "x[::-1] by reverse"),
    "channels stacked": (lambda x: tf.stack([x[..., 2], x[..., 1], x[..., 0]], -1), "x[::-1] by reverse"),
    "by their place": (lambda x: tf.stack([x[:, :, -1], x[:, :, -2], x[:, :, -3]], 2), "x[::-1] by reverse"),
    "twice": (lambda x: x[::-1][:, ::-1], "2 times x[::-1] by reverse"),
    "numbers of channels": (lambda x: (x - NUMBERS) / NUMBERS, "Sub by rows, RealDiv by rows"),
    "numbers before images": (lambda x: NUMBERS - x, "Sub by rows"),
    "numbers with axes of 1": (lambda x: x * tf.reshape(NUMBERS, (1, 1, 3)), "Mul by rows"),
    "one condition": (lambda x: tf.where(x[0, 0, 0] > 0, x, x * 2), "where by a choice of one"),
    "in a branch": (lambda x: tf.cond(x[0, 0, 0] > 0, lambda: x[::-1], lambda: x), "x[::-1] by reverse"),
    "in a branch of a branch": (
        lambda x: tf.cond(
            x[0, 0, 0] > 0, lambda: tf.cond(x[0, 0, 1] > 0, lambda: x - NUMBERS, lambda: x), lambda: x[::-1]
        ),
        "Sub by rows, x[::-1] by reverse",
    ),
    "Keras preprocessing": (
        lambda x: tf.keras.applications.resnet50.preprocess_input(x),
        "x[::-1] by reverse, AddV2 by rows",
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_gets_the_same_bits_by_a_cheaper_op(name):
    function, instead = IMAGES[name]
    found = swapped(function, of(SIDES))
    assert found.instead == instead
    for seed in range(4):
        image = np.random.default_rng(seed).normal(size=SIDES).astype(np.float32)
        assert_same_bits(found, image)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float64, np.bool_, np.complex64])
def test_whatever_its_type(dtype):
    image = (np.random.default_rng(0).normal(size=SIDES) * 100).astype(dtype)
    turn = lambda x: x[:, ::-1]  # noqa: E731
    assert_same_bits(swapped(turn, of(SIDES, dtype)), image)
    if dtype is not np.bool_:
        add = lambda x: x + tf.cast([1, 2, 3], dtype)  # noqa: E731
        assert_same_bits(swapped(add, of(SIDES, dtype)), image)


KEPT = {
    "a part of an axis": lambda x: x[1:, ::-1],
    "another step": lambda x: x[:, ::-2],
    "from a place on": lambda x: x[:, 30::-1],
    "a new axis": lambda x: x[tf.newaxis, ::-1],
    "a dropped axis": lambda x: x[0, ::-1],
    "as it was": lambda x: x[:, :],
    "other channels": lambda x: tf.stack([x[..., 2], x[..., 0], x[..., 1]], -1),
    "some channels": lambda x: tf.stack([x[..., 1], x[..., 0]], -1),
    "channels of two images": lambda x: tf.stack([x[..., 2], (x + 1)[..., 1], x[..., 0]], -1),
    "channels stacked first": lambda x: tf.stack([x[..., 2], x[..., 1], x[..., 0]], 0),
    "parts of channels": lambda x: tf.stack([x[1:, :, 2], x[1:, :, 1], x[1:, :, 0]], -1),
    "rows stacked": lambda x: tf.stack([x[2], x[1], x[0]], -1),
    "one number": lambda x: x - 0.5,
    "a number for each row": lambda x: x - tf.ones((48, 1, 1)),
    "a number for each column": lambda x: x - tf.ones((40, 1)),
    "as many as there are": lambda x: x - tf.ones(SIDES),
    "a condition for each": lambda x: tf.where(x > 0, x, x * 2),
    "a condition that spreads": lambda x: tf.where(x[0, 0, 0] > 0, x, 0.0),
    "sums that TensorFlow regroups": lambda x: x + NUMBERS + NUMBERS,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_something_else_stays(name):
    assert swapped(KEPT[name], of(SIDES)) is None


def test_what_is_small_stays():
    assert swapped(lambda x: x[:, ::-1] - NUMBERS, of((8, 8, 3))) is None
    assert swapped(lambda x: x - [0.0] * 17, of((48, 40, 17))) is None


def test_sizes_that_nobody_knows_stay_where_a_function_could_not_fail():
    assert swapped(lambda x: x - NUMBERS, of((None, None, 3))) is None
    assert swapped(lambda x: x - NUMBERS, of((None, None, 40, 3))) is None
    assert swapped(lambda x: x - NUMBERS, of((None, 0, 40, 3))) is None


OF_ANY_NUMBER = [(None, *SIDES), (None, 40, 3), (None, 2, *SIDES)]


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(SIDES, None), ((5, *SIDES), None), *((sizes, count) for sizes in OF_ANY_NUMBER for count in (0, 1, 5))],
)
def test_any_number_of_images_is_taken_and_cannot_fail(sizes, count):
    found = swapped(lambda x: (x - NUMBERS) / NUMBERS, of(sizes))
    assert found.instead == "Sub by rows, RealDiv by rows"
    assert may_fail(found.fn) is None
    assert found.fn.concrete.outputs[0].shape.as_list() == list(sizes)
    assert_same_bits(found, floats([count if size is None else size for size in sizes]))


@pytest.mark.parametrize("shape", [(48, 40), (0, 7), (7, 0), (0, 0), (1, 1)])
def test_images_of_any_size_are_taken_where_the_function_may_fail_anyway(shape):
    def function(x):
        return (tf.debugging.check_numerics(x, "") - NUMBERS) / NUMBERS

    found = swapped(function, of((None, None, 3)))
    assert found.instead == "Sub by rows, RealDiv by rows"
    assert found.fn.element_shapes[0].as_list() == [None, None, 3]
    assert_same_bits(found, np.random.default_rng(0).normal(size=(*shape, 3)).astype(np.float32))


@given(data=st.data())
def test_any_slice_that_is_swapped_gives_the_same(data):
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    pieces = st.one_of(
        st.just(slice(None)),
        st.just(slice(None, None, -1)),
        st.builds(
            slice, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4), st.sampled_from([None, -1, 2])
        ),
        st.integers(0, 0),
    )
    parts = data.draw(st.lists(pieces, min_size=1, max_size=rank))
    if data.draw(st.booleans()):
        parts.insert(data.draw(st.integers(0, len(parts))), Ellipsis)
    function = lambda x: x[tuple(parts)]  # noqa: E731
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_LEAST_NUMBERS", 1)
        found = swapped(function, of(shape))
    turned = any(part == slice(None, None, -1) for part in parts)
    plain = all(part in (slice(None), slice(None, None, -1), Ellipsis) for part in parts)
    assert (found is not None) == (turned and plain)
    if found:
        assert_same_bits(found, floats(shape))


@given(data=st.data(), channels=CHANNELS, name=st.sampled_from(sorted(BY_VALUE)), first=st.booleans())
def test_any_operation_by_rows_gives_the_same(data, channels, name, first):
    lead = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    ones = [1] * data.draw(st.integers(0, len(lead)))
    dtype = data.draw(st.sampled_from([np.float32, np.float64, np.float16]))
    operate = BY_VALUE[name]

    def function(image, numbers):
        return operate(image, numbers) if first else operate(numbers, image)

    specs = of((*lead, channels), dtype), of((*ones, channels), dtype)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_LEAST_NUMBERS", 1)
        found = swapped(function, *specs)
    assume(found is not None)
    assert_same_bits(found, floats(specs[0].shape, dtype), floats(specs[1].shape, dtype))


@pytest.mark.parametrize("name", BY_VALUE)
def test_every_operation_by_value_has_a_form_by_rows(name):
    assert swapped(lambda x: BY_VALUE[name](x, NUMBERS), of(SIDES)).instead.endswith(" by rows")


def test_a_function_with_neither_is_left_alone():
    assert swapped(lambda x: x * 2, of(SIDES)) is None
