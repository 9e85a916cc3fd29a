"""What a consumer asks for is counted, whoever it is, and nothing is changed by it."""

import pytest
import tensorflow as tf

from autopipe.runtime.repoint import repoint, state_of
from autopipe.runtime.requests import Requests

Dataset = tf.data.Dataset
MADE = {
    "scalars": lambda: Dataset.range(9).filter(lambda x: x < 6),
    "tuples of one": lambda: Dataset.range(6).map(lambda x: (x,)),
    "ragged": lambda: Dataset.range(6).map(lambda x: tf.ragged.range([x, 2])),
    "sparse and text": lambda: Dataset.range(6).map(lambda x: (tf.sparse.from_dense([x, 0]), {"t": "a"})),
    "batches": lambda: Dataset.range(6).map(lambda x: tf.fill([x], x)).padded_batch(2).unbatch(),
}


def quotients():
    """Of seven elements, the fifth fails."""
    numbers = Dataset.range(8).filter(lambda x: x < 7)
    return numbers.map(lambda x: 12 // (x - 4), num_parallel_calls=2).prefetch(3)


def without_prefetch(dataset):
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


@pytest.mark.parametrize("name", MADE)
def test_the_elements_are_the_same_and_counted(name):
    requests, written = Requests(), MADE[name]()
    counted = without_prefetch(requests.counted(written))
    assert counted.element_spec == written.element_spec
    assert [str(each) for each in counted] == [str(each) for each in written]
    assert (requests.given, requests.in_vain) == (6, 1)


def test_what_failed_and_the_end_were_asked_for_in_vain():
    requests = Requests()
    iterator = iter(without_prefetch(requests.counted(quotients())))
    assert [int(next(iterator)) for _ in range(4)] == [-3, -4, -6, -12]
    assert (requests.given, requests.in_vain) == (4, 0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    assert (requests.given, requests.in_vain) == (4, 1)
    assert list(map(int, iterator)) == [12, 6]
    assert (requests.given, requests.in_vain) == (6, 2)


def test_a_traced_consumer_is_counted_too():
    requests = Requests()

    @tf.function
    def read(dataset):
        return dataset.reduce(tf.constant(0, tf.int64), lambda total, x: total + x)

    assert int(read(without_prefetch(requests.counted(Dataset.range(5))))) == 10
    assert (requests.given, requests.in_vain) == (5, 1)


def test_they_go_on_with_an_iterator_over_another_pipeline():
    requests = Requests()
    iterator = iter(without_prefetch(requests.counted(quotients())))
    assert int(next(iterator)) == -3
    assert repoint(iterator, state_of(iterator), without_prefetch(requests.counted(quotients())))
    assert int(next(iterator)) == -4
    assert (requests.given, requests.in_vain) == (2, 0)


def test_another_iterator_begins_anew():
    requests = Requests(given=3, in_vain=1)
    assert (requests.given, requests.in_vain) == (3, 1)
    requests.begin()
    assert (requests.given, requests.in_vain) == (0, 0)
