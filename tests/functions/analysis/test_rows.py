"""A function is said to treat rows apart only if what becomes of a row is the same whoever its neighbours are."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from batch_functions import APART, MIXED, NUMBERS
from hypothesis import assume, given
from hypothesis import strategies as st
from needing import needs_keras

from autopipe.functions.analysis.rows import who_mixes_rows
from autopipe.pipeline.extract import function_of

Dataset = tf.data.Dataset
TEXTS = np.array([f"{'a ' * (place % 5)}B{place},{place % 3} c" for place in range(24)])
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "B1", "b2"], [7, 8, 9]), -1)
EXAMPLES = np.array(
    [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[place, place + 0.5])),
                    "more": tf.train.Feature(int64_list=tf.train.Int64List(value=range(place % 4))),
                }
            )
        ).SerializeToString()
        for place in range(24)
    ],
    dtype=object,
)


def keras_text(**arguments):
    layer = keras.layers.TextVectorization(vocabulary=["a", "b1", "c"], **arguments)
    return lambda x: layer(tf.expand_dims(x, -1))


APART_TEXTS = {
    "by value": lambda x: tf.strings.regex_replace(tf.strings.lower(x), "a", "o"),
    "looked up": lambda x: TABLE.lookup(tf.strings.strip(x)),
    "words": pytest.param(keras_text(output_sequence_length=6), marks=needs_keras("3.9")),
    "hashed": lambda x: tf.strings.to_hash_bucket_fast(x, 11),
    "pairs of words": lambda x: tf.strings.ngrams(tf.strings.split(x), 2).to_tensor("", shape=[None, 3]),
    "looked up pairs": pytest.param(keras_text(ngrams=2, output_sequence_length=6), marks=needs_keras("3.9")),
    "bags": pytest.param(keras_text(output_mode="multi_hot", ngrams=2), marks=needs_keras("3.9")),
    "counted bags": pytest.param(keras_text(output_mode="count"), marks=needs_keras("3.9")),
    "weighed bags": pytest.param(keras_text(output_mode="tf_idf", idf_weights=[0.5, 1, 2]), marks=needs_keras("3.9")),
}


def on_batches(function, rows=NUMBERS):
    return function_of(Dataset.from_tensor_slices(rows).batch(24).map(function))


def same_rows(fn, rows):
    """Compare what becomes of rows all together with what becomes of some of them, in another order."""
    some = np.random.default_rng(1).permutation(len(rows))[:9]
    whole, part = (fn.concrete(tf.constant(given)) for given in (rows, rows[some]))
    for all_made, made in zip(whole, part, strict=True):
        expected = all_made.numpy()[some]
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("function", APART.values(), ids=APART)
def test_rows_are_apart(function):
    fn = on_batches(function)
    assert who_mixes_rows(fn) is None
    same_rows(fn, NUMBERS)


@pytest.mark.parametrize("function", APART_TEXTS.values(), ids=APART_TEXTS)
def test_rows_of_texts_are_apart(function):
    fn = on_batches(function, TEXTS)
    assert who_mixes_rows(fn) is None
    same_rows(fn, TEXTS)


@needs_keras("3.9")
def test_rows_of_a_feature_space_are_apart():
    space = keras.utils.FeatureSpace(
        features={
            "place": keras.utils.FeatureSpace.float_discretized(num_bins=5),
            "text": keras.utils.FeatureSpace.string_hashed(num_bins=7),
        },
        crosses=[("place", "text")],
        crossing_dim=8,
        output_mode="concat",
    )
    columns = {"place": NUMBERS[:, 0], "text": TEXTS}
    rows = Dataset.from_tensor_slices(columns)
    space.adapt(rows)
    fn = function_of(rows.batch(24).map(space))
    assert who_mixes_rows(fn) is None
    some = np.arange(24)[::-3]
    whole, part = (fn.concrete(*(tf.constant(columns[name][rows]) for name in columns)) for rows in (range(24), some))
    np.testing.assert_array_equal(part[0].numpy(), whole[0].numpy()[some])


def test_examples_parsed_by_the_batch_are_apart_where_they_have_one_shape():
    one, many = tf.io.FixedLenFeature([2], tf.float32), tf.io.RaggedFeature(tf.int64)
    fn = on_batches(lambda x: tf.io.parse_example(x, {"x": one})["x"], EXAMPLES)
    assert who_mixes_rows(fn) is None
    same_rows(fn, EXAMPLES)
    ragged = on_batches(lambda x: tf.io.parse_example(x, {"more": many})["more"].to_tensor(), EXAMPLES)
    assert who_mixes_rows(ragged).startswith("ParseExampleV2")


@pytest.mark.parametrize(("what", "function"), MIXED.items(), ids=MIXED)
def test_what_mixes_rows_is_named(what, function):
    rows = Dataset.from_tensor_slices(NUMBERS).batch(24, drop_remainder=what in ("AddV2", "Select"))
    assert who_mixes_rows(function_of(rows.map(function))).startswith(what.strip())


def test_what_is_no_batch_has_no_rows():
    for function in (lambda x: x + 1, lambda x: tf.expand_dims(x, 0)):
        assert who_mixes_rows(function_of(Dataset.range(3).map(function))) == "an element that has no rows"


def test_rows_as_wide_as_the_longest_of_their_batch_are_mixed():
    assert who_mixes_rows(on_batches(keras_text(), TEXTS)).startswith("RaggedTensorToTensor")
    words = on_batches(lambda x: tf.strings.split(x).to_tensor(), TEXTS)
    assert who_mixes_rows(words).startswith("RaggedTensorToTensor")


def test_pieces_of_other_rows_are_mixed():
    """As many rows as there are and one more, and pieces that were counted elsewhere."""

    def one_more(x):
        words = tf.strings.split(x)
        return tf.raw_ops.RaggedTensorToTensor(
            shape=tf.constant([-1, 3], tf.int64),
            values=words.values,
            default_value="",
            row_partition_tensors=[words.nrows() + 1, words.value_rowids()],
            row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
        )

    def of_others(x):
        words, others = tf.strings.split(x), tf.strings.split(x, ",")
        return tf.raw_ops.RaggedTensorToTensor(
            shape=tf.constant([-1, 3], tf.int64),
            values=words.values,
            default_value="",
            row_partition_tensors=[words.nrows(), others.value_rowids()],
            row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
        )

    def by_splits_of_others(x):
        words, others = tf.strings.split(x), tf.strings.split(x, ",")
        return tf.RaggedTensor.from_row_splits(words.values, others.row_splits, validate=False).to_tensor(
            shape=[None, 3]
        )

    for function in (one_more, of_others, by_splits_of_others):
        assert who_mixes_rows(on_batches(function, TEXTS)).startswith("RaggedTensorToTensor")


def test_pairs_of_words_across_rows_are_mixed():
    def all_in_one(x):
        words = tf.strings.split(x)
        splits = tf.stack([0, tf.size(words.values, tf.int64)])
        pairs = tf.strings.ngrams(tf.RaggedTensor.from_row_splits(words.values, splits, validate=False), 2)
        return tf.repeat(pairs.values[:1], tf.shape(x)[0])

    def of_others(x):
        words, others = tf.strings.split(x), tf.strings.split(x, ",")
        pieces = tf.RaggedTensor.from_row_splits(words.values, others.row_splits, validate=False)
        return tf.strings.ngrams(pieces, 2).to_tensor(shape=[None, 3])

    def without_a_beginning(x):
        words = tf.strings.split(x)
        splits = tf.concat([[1], words.row_splits[1:]], axis=0)
        return tf.RaggedTensor.from_row_splits(words.values, splits, validate=False).to_tensor(shape=[None, 3])

    def of_more_rows(x):
        words = tf.strings.split(x)
        counts = tf.raw_ops.DenseBincount(input=words.value_rowids(), size=words.nrows() + 1, weights=tf.zeros([0]))
        splits = tf.concat([[0], tf.cumsum(tf.cast(counts, tf.int64))], axis=0)
        return tf.RaggedTensor.from_row_splits(words.values, splits, validate=False).to_tensor(shape=[None, 3])

    for function in (all_in_one, of_others, without_a_beginning, of_more_rows):
        assert who_mixes_rows(on_batches(function, TEXTS)) is not None


def test_numbers_within_bounds_that_leave_a_choice_are_not_known():
    """That of the rows is, where it bounds from both sides."""

    def bounded(x, least, most):
        longest = tf.shape(tf.strings.split(x).to_tensor())[1]
        return tf.zeros([tf.shape(x)[0], 1]) + tf.cast(tf.minimum(most, tf.maximum(least, longest)), tf.float32)

    assert who_mixes_rows(on_batches(lambda x: bounded(x, 4, 4), TEXTS)) is None
    assert who_mixes_rows(on_batches(lambda x: bounded(x, 3, 4), TEXTS)) is not None


@given(names=st.lists(st.sampled_from([*APART, *MIXED]), min_size=1, max_size=4))
def test_no_chain_of_functions_is_said_to_keep_rows_apart_that_mixes_them(names):
    # AutoGraph turns some errors into others that have no name.
    @tf.autograph.experimental.do_not_convert
    def chain(x):
        for name in names:
            made = tf.nest.flatten({**APART, **MIXED}[name](x))
            x = tf.cast(tf.identity(made[-1]), tf.float32)
        return x

    try:
        fn = on_batches(chain)
        fn.concrete(tf.constant(NUMBERS))
    except (ValueError, TypeError, IndexError, tf.errors.OpError):
        assume(False)
    assume(who_mixes_rows(fn) is None)
    same_rows(fn, NUMBERS)


def test_a_check_of_all_rows_mixes_them_though_no_result_does():
    def check(x):
        tf.debugging.assert_positive(tf.reduce_sum(x))
        return x * 2

    assert who_mixes_rows(function_of(Dataset.range(8).batch(4).map(check))) is not None
