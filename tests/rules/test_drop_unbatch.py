import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import assert_no_match, assert_refuses, assert_rewrites, with_all_rules

RULE = "drop_unbatch"


def structure(x):
    return {"x": x, "y": (tf.cast(x, tf.float32), tf.strings.as_string(x), tf.fill([2, 3], x))}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("size", [1, 3, 23, 50])
def test_elements_are_not_stacked_to_be_taken_apart(size, keeps):
    dataset = tf.data.Dataset.range(23).map(structure).batch(size).unbatch()
    assert_rewrites(RULE, dataset, "range(0, 23) | map(structure)", keeps)


def test_drops_a_parallel_batch():
    dataset = tf.data.Dataset.range(23).batch(4, num_parallel_calls=2, deterministic=True).unbatch()
    assert_rewrites(RULE, dataset, "range(0, 23)", Keeps.SEQUENCE)


def test_no_elements_an_unknown_number_and_elements_without_end():
    numbers = tf.data.Dataset.range(9)
    assert_rewrites(RULE, numbers.take(0).batch(4).unbatch(), "range(0, 9) | take(0)", Keeps.SEQUENCE)
    assert_rewrites(RULE, numbers.filter(lambda x: x > 2).batch(4).unbatch(), "range(0, 9) | filter(<lambda>)")
    endless = numbers.repeat().batch(4).unbatch().take(20)
    assert_rewrites(RULE, endless, "range(0, 9) | repeat() | take(20)", Keeps.SEQUENCE)


def test_batches_of_another_size_are_made_at_once():
    dataset = tf.data.Dataset.range(23).batch(4).unbatch().batch(5)
    assert_rewrites(RULE, dataset, "range(0, 23) | batch(5)", Keeps.SEQUENCE)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None


def test_refuses_elements_that_may_differ_in_shape():
    uneven = tf.data.Dataset.range(3).map(lambda x: tf.range(x))
    assert_refuses(RULE, uneven.batch(1).unbatch(), "the shape (None,) and may differ, so that a batch would fail")


def test_refuses_what_is_not_a_plain_tensor():
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    assert_refuses(RULE, ragged.batch(2).unbatch(), "elements hold a RaggedTensor, not a plain tensor")
    sparse = tf.data.Dataset.from_tensor_slices(tf.sparse.eye(4))
    assert_refuses(RULE, sparse.batch(2).unbatch(), "elements hold a SparseTensor, not a plain tensor")


def test_refuses_where_errors_are_ignored():
    dataset = tf.data.Dataset.range(9).map(lambda x: 6 // x).batch(4).unbatch()
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors() would drop them too")


def test_does_not_match_a_batch_that_leaves_elements_out():
    assert_no_match(RULE, tf.data.Dataset.range(9).batch(4, drop_remainder=True).unbatch())
    assert_no_match(RULE, tf.data.Dataset.range(9).batch(4).map(lambda x: x).unbatch())
    assert_no_match(RULE, tf.data.Dataset.range(9).padded_batch(4).unbatch())


def test_refuses_where_an_epoch_that_is_left_halfway_would_have_drawn_fewer_orders():
    orders = tf.data.Dataset.range(9).shuffle(9, seed=1).repeat()
    assert_refuses(RULE, orders.batch(4).unbatch(), "each repetition draws its order from a seed")


def test_refuses_where_fewer_draws_of_a_generator_could_be_seen():
    generator = tf.random.Generator.from_seed(1)
    drawn = tf.data.Dataset.range(9).map(lambda x: generator.uniform([])).batch(4).unbatch()
    assert_refuses(RULE, drawn, "draws from a generator", Keeps.SEQUENCE)
