import pytest
import tensorflow as tf

from autopipe.functions.analysis.failures import may_fail, types_that_may_fail
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract, function_of

NUMBERS = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(12.0), (3, 4)))
WORDS = tf.data.Dataset.from_tensor_slices(["1", "2"])


def blame(dataset, function):
    return may_fail(function_of(dataset.map(function)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / 2 - 1,
        lambda x: (tf.reshape(x, (2, 2)), tf.reduce_sum(x)),
        lambda x: x + tf.random.uniform((4,)),
        lambda x: tf.random.stateless_uniform((4,), (1, 2)) + x,
        lambda x: x[1:3],
        lambda x: (x % 2, x // 0, tf.cast(x, tf.int32) % 3, tf.cast(x, tf.int32) // [1, 2, -3, 4]),
        lambda x: tf.gather(x, [0, 3, 3]) + tf.gather(tf.reshape(x, (2, 2)), 1, axis=1)[0],
        lambda x: tf.stack([tf.cast(x[0], tf.int32), 2]),
        lambda x: tf.concat([tf.cast(x, tf.int32), [1]], 0),
        lambda x: tf.split(tf.cast(x, tf.int32), 2),
        lambda x: tf.matmul([tf.cast(x, tf.int32)], [[1], [2], [3], [4]]),
        lambda x: {"a": tf.one_hot(tf.cast(x[0], tf.int32), 3), "b": tf.concat([x, x], 0)},
    ],
)
def test_arithmetic_on_known_shapes_never_fails(function):
    assert blame(NUMBERS, function) is None


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.cast(x, tf.int32) // tf.cast(x, tf.int32), "FloorDiv"),
        (lambda x: 7 % tf.cast(x, tf.int32), "FloorMod"),
        (lambda x: tf.cast(x, tf.int32) // [1, 2, 0, 4], "FloorDiv"),
        (lambda x: tf.cast(x, tf.int32) // -1, "FloorDiv"),
        (lambda x: tf.gather(x, tf.cast(x[0], tf.int32)), "GatherV2"),
        (lambda x: tf.gather(x, [0, 4]), "GatherV2"),
        (lambda x: tf.gather(tf.reshape(x, (2, 2)), [[0], [1]], batch_dims=1), "GatherV2"),
        (lambda x: tf.concat([x, x], tf.cast(x[0], tf.int32)), "ConcatV2"),
        (lambda x: tf.debugging.check_numerics(x, "bad"), "CheckNumerics"),
        (lambda x: x[tf.cast(x[0], tf.int32)], "StridedSlice"),
        (lambda x: tf.reshape(x, tf.stack([tf.cast(x[0], tf.int32), 4])), "Reshape"),
    ],
)
def test_an_op_that_could_fail_on_some_element_is_named(function, op):
    assert op in blame(NUMBERS, function)


@pytest.mark.parametrize(
    ("sizes", "fails"),
    [
        ((-1, 24), False),
        ((-1, 2, 12), False),
        ((-1, 12), False),
        ((2, -1, 6), False),
        ((2, -1, 24), True),
        ((-1, 5), True),
        ((0, -1), True),
    ],
)
def test_a_batch_of_any_size_is_reshaped_where_every_row_makes_whole_ones(sizes, fails):
    batches = tf.data.Dataset.from_tensors(tf.zeros((4, 6))).repeat(5).batch(2)
    assert (blame(batches, lambda x: tf.reshape(x, sizes)) == "Reshape") is fails
    known_only_in_part = tf.data.Dataset.from_generator(
        lambda: iter(()), output_signature=tf.TensorSpec((None, None, 6))
    )
    assert blame(known_only_in_part, lambda x: tf.reshape(x, (-1, 6))) == "Reshape"


LINES = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=tf.TensorSpec([None, 3]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.reduce_max(x),
        lambda x: (tf.reduce_sum(x, 0), tf.reduce_min(x, -1), tf.reduce_prod(x, [0, 1])),
        lambda x: (tf.reduce_all(x > 0), tf.reduce_any(x > 0, 1)),
        lambda x: tf.reduce_min(tf.where(x[:, 0] > 0)),
    ],
)
def test_axes_that_are_there_are_reduced_whatever_their_sizes(function):
    assert blame(LINES, function) in {None, "StridedSlice"}
    function(tf.zeros([0, 3]))


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.reduce_max(x, tf.cast(x[0, 0], tf.int32)), "Max"),
        (lambda x: tf.argmax(x), "ArgMax"),
        (lambda x: tf.reduce_sum(tf.reshape(x, tf.cast(x[0], tf.int32)), 0), "Reshape"),
    ],
)
def test_axes_that_may_not_be_there_or_be_empty_are_not_reduced_for_sure(function, op):
    assert op in types_that_may_fail(function_of(LINES.map(function)))


@pytest.mark.parametrize("size", [None, 5])
def test_a_choice_by_rows_fails_where_there_are_more_or_fewer(size):
    rows = tf.data.Dataset.from_generator(lambda: iter(()), output_signature=tf.TensorSpec([size], tf.bool))
    columns = tf.reshape(tf.range(5.0), (5, 1))
    chosen = function_of(rows.map(lambda x: tf.raw_ops.Select(condition=x, x=columns, y=-columns)))
    assert ("Select" in types_that_may_fail(chosen)) is (size is None)


def test_where_a_bucket_ends_is_looked_up_without_fail():
    buckets = LINES.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [2, 5], [4, 2, 1])
    (grouped,) = (each for each in trees.walk(extract(buckets)) if isinstance(each, ir.GroupByWindow))
    assert types_that_may_fail(grouped.key_func) == ()


def test_parsing_text_may_fail_and_measuring_it_may_not():
    assert blame(WORDS, tf.strings.to_number) == "StringToNumber"
    assert blame(WORDS, tf.strings.length) is None


def test_a_function_inside_a_function_is_looked_into():
    @tf.function
    def inner(x):
        return tf.strings.to_number(x)

    assert blame(WORDS, lambda x: tf.cond(x == "1", lambda: inner(x), lambda: 0.0)) is not None


def test_each_op_that_may_fail_is_counted_in_branches_and_called_functions_too():
    @tf.function
    def inner(x):
        return tf.strings.to_number(x)

    function = extract(WORDS.map(lambda x: tf.cond(x == "1", lambda: inner(x), lambda: inner(x) + inner(x)))).fn
    assert types_that_may_fail(function) == ("StringToNumber",) * 3
    assert types_that_may_fail(extract(WORDS.map(tf.strings.length)).fn) == ()


def test_a_choice_among_whole_numbers_of_known_shapes_never_fails():
    numbers = tf.data.Dataset.range(3).map(lambda x: tf.raw_ops.Select(condition=x > 1, x=x + 1, y=x + 2))
    assert types_that_may_fail(function_of(numbers)) == ()
