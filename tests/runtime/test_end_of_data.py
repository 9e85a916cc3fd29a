"""A dataset tells when its consumer has all its elements, and not before."""

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.runtime.end_of_data import telling_its_end
from autopipe.runtime.requests import Requests

Dataset = tf.data.Dataset
MADE = {
    "known": lambda: Dataset.range(6).map(lambda x: x * 1).prefetch(9),
    "unknown": lambda: Dataset.range(9).filter(lambda x: x < 6).prefetch(9),
    "ragged": lambda: Dataset.range(12).filter(lambda x: x < 6).map(lambda x: tf.ragged.range([x, 2])),
    "sparse and text": lambda: Dataset.range(6).map(lambda x: (tf.sparse.from_dense([x, 0]), {"t": "a"})),
    "none": lambda: Dataset.range(0),
}


def telling(dataset, tell=lambda: None, **how):
    number = int(dataset.cardinality())
    return telling_its_end(dataset, tell, Requests(), **{"number": number, "inner_prefetch": False, **how})


def told(dataset, inner_prefetch=True):
    ended = tf.Variable(False)

    def tell():
        ended.assign(True)

    return telling(dataset, tell, inner_prefetch=inner_prefetch), ended


@pytest.mark.one_in(2)
@pytest.mark.parametrize("inner_prefetch", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_the_elements_are_the_same_and_the_end_is_told(name, inner_prefetch):
    dataset, ended = told(MADE[name](), inner_prefetch)
    assert dataset.element_spec == MADE[name]().element_spec
    assert [str(each) for each in dataset] == [str(each) for each in MADE[name]()]
    assert ended.numpy()


def chosen(dataset):
    parts = [dataset.filter(lambda x, *_, rest=rest: tf.reduce_sum(x) % 2 == rest) for rest in (0, 1)]
    return Dataset.sample_from_datasets(parts, seed=1)


@pytest.mark.parametrize("inner_prefetch", [False, True])
@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).map(lambda x: tf.fill([2, 3], x)),
        Dataset.range(9).map(lambda x: (tf.fill([2], x), {"ragged": tf.ragged.range([x, 2]), "text": "a"})),
    ],
    ids=["tensors", "several"],
)
def test_elements_chosen_from_several_datasets_keep_their_shapes(dataset, inner_prefetch):
    made = chosen(dataset).batch(4)
    dataset = telling(made, inner_prefetch=inner_prefetch, chosen=True)
    assert dataset.element_spec == made.element_spec
    assert [str(each) for each in dataset] == [str(each) for each in made]


def test_a_cache_of_an_unknown_number_that_is_chosen_from_and_batched_is_read():
    def inverse(x):
        scaled = tf.eye(100) * (1.0 + tf.cast(x, tf.float32))
        return tf.debugging.check_numerics(tf.linalg.inv(scaled), "not a number")

    numbers = Dataset.range(3).flat_map(lambda x: Dataset.range(3)).map(inverse)
    drawn = Dataset.sample_from_datasets([numbers.shuffle(9), numbers.shuffle(9)], seed=3).batch(4)
    dataset = autopipe.optimize(drawn)
    assert any(isinstance(node, ir.Cache) for node in trees.walk(dataset.tree))
    for _epoch in range(3):
        np.testing.assert_allclose(sum(map(tf.reduce_sum, dataset)), sum(map(tf.reduce_sum, drawn)), rtol=1e-5)


def test_the_last_of_a_known_number_tells_and_the_one_before_does_not():
    dataset, ended = told(MADE["known"]())
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    assert not ended.numpy()
    next(iterator)
    assert ended.numpy()


def test_of_an_unknown_number_it_takes_another_to_be_asked_for():
    dataset, ended = told(MADE["unknown"]())
    iterator = iter(dataset)
    for _ in range(6):
        next(iterator)
    assert not ended.numpy()
    assert next(iterator, None) is None
    assert ended.numpy()


@pytest.mark.parametrize("name", ["known", "unknown"])
def test_an_error_is_no_end(name):
    dataset, ended = told(MADE[name]().map(lambda x: (tf.debugging.assert_less(x, tf.constant(4, tf.int64)), x)[1]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(dataset)
    assert not ended.numpy()


@pytest.mark.parametrize("name", ["known", "unknown"])
def test_the_end_is_not_told_to_who_read_on_after_an_error(name):
    ended = tf.Variable(False)
    dataset = MADE[name]().map(lambda x: (tf.debugging.assert_none_equal(x, tf.constant(4, tf.int64)), x)[1])
    iterator = iter(telling(dataset, lambda: ended.assign(True)))
    assert [int(next(iterator)) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    assert list(map(int, iterator)) == [5]
    assert not ended.numpy()


def test_as_many_as_there_are_to_be_are_no_end_where_another_took_the_place_of_one_that_failed():
    ended = tf.Variable(False)
    made = Dataset.range(8).map(lambda x: (tf.debugging.assert_none_equal(x, tf.constant(2, tf.int64)), x)[1]).take(6)
    iterator = iter(telling(made, lambda: ended.assign(True)))
    assert [int(next(iterator)) for _ in range(2)] == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    assert list(map(int, iterator)) == [3, 4, 5, 6]
    assert not ended.numpy()


def test_one_that_never_ends_never_tells():
    dataset, ended = told(Dataset.range(3).repeat())
    assert [int(x) for x in dataset.take(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert not ended.numpy()


@pytest.mark.parametrize("inner_prefetch", [True, False])
def test_a_tuple_of_one_stays_a_tuple(inner_prefetch):
    numbers = tf.data.Dataset.range(3).map(lambda x: (x,))
    told = telling(numbers, inner_prefetch=inner_prefetch)
    assert told.element_spec == numbers.element_spec
    assert [type(each) for each in told] == [tuple] * 3


@pytest.mark.parametrize("name", ["known", "unknown"])
def test_an_iterator_is_saved_where_one_over_the_same_elements_is(name, tmp_path):
    written = MADE[name]()

    def made(stateless):
        return telling(written, stateless=stateless)

    iterator = iter(made(stateless=True))
    first = next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(tmp_path / "saved")
    assert [first, *iterator] == list(written)
    checkpoint.restore(path)
    assert [first, *iterator] == list(written)


def test_a_state_that_is_not_ours_is_not_passed_over(tmp_path):
    drawn = Dataset.range(6).map(lambda x: (x, tf.random.uniform([])))
    told = telling(drawn)
    with pytest.raises(tf.errors.FailedPreconditionError, match="is stateful"):
        tf.train.Checkpoint(iterator=iter(told)).save(tmp_path / "saved")
