import pytest
import tensorflow as tf

from autopipe.functions.joined.losing import losing_errors
from autopipe.pipeline.extract import extract


def functions(*maps):
    """Functions that run one after the other on numbers."""
    dataset = tf.data.Dataset.range(3)
    for each in maps:
        dataset = dataset.map(each)
    found, node = [], extract(dataset)
    for _ in maps:
        found.insert(0, node.fn)
        node = node.input
    return found


def with_quotient(x):
    return x, 6 // x


def checked(x):
    tf.debugging.assert_positive(x)
    return x, x + 1


def first(x, *others):
    return x


@pytest.mark.parametrize(
    ("maps", "losing"),
    [
        ([with_quotient], []),
        ([with_quotient, first], [0]),
        ([with_quotient, lambda x, quotient: quotient], []),
        ([with_quotient, lambda x, quotient: (x, quotient + 1), first], [0]),
        ([with_quotient, lambda x, quotient: (x, quotient + 1, 6 // quotient), first], [0, 1]),
        ([lambda x: x + 1, with_quotient, lambda x, quotient: 0 * x], [1]),
        ([checked, first], []),
        ([lambda x: tf.split(tf.stack([6 // x, x]), 2), first], []),
    ],
)
def test_errors_of_what_nobody_needs_are_lost(maps, losing):
    found = functions(*maps)
    assert losing_errors(found) == tuple(found[at] for at in losing)
