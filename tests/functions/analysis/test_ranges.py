"""How long a range is may be known though where it begins is not."""

import pytest
import tensorflow as tf

from autopipe.functions.analysis.ranges import known_length

PLACES = tf.constant([0, 3, 6, 9])

LENGTHS = {
    "behind its start": (lambda x: tf.range(x, x + 5), 5),
    "in steps": (lambda x: tf.range(x, x + 7, 3), 3),
    "downward": (lambda x: tf.range(x, x + -6, -2), 3),
    "empty": (lambda x: tf.range(x, x + 0), 0),
    "away from its end, which fails": (lambda x: tf.range(x, x + -3), None),
    "the sum the other way round": (lambda x: tf.range(x, 4 + x), 4),
    "the start worked out twice": (lambda x: tf.range(PLACES[x] * 2, PLACES[x] * 2 + 4), 4),
    "the length worked out": (lambda x: tf.range(x, x + tf.constant(3) * tf.constant(2)), 6),
    "to a number": (lambda x: tf.range(x, 9), None),
    "from a number": (lambda x: tf.range(x), None),
    "behind another start": (lambda x: tf.range(PLACES[x] + 1, PLACES[x] + 4), None),
    "of floats": (lambda x: tf.range(tf.cast(x, tf.float32), tf.cast(x, tf.float32) + 3.0), None),
    "a start that is drawn twice": (lambda x: tf.range(_drawn(), _drawn() + 3), None),
    "in steps that change": (lambda x: tf.range(x, x + 4, x + 1), None),
}


def _drawn():
    return tf.random.uniform((), 0, 9, tf.int32)


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_length_is_known_where_it_is_the_same_for_every_start(kind):
    function, expected = LENGTHS[kind]
    graph = tf.function(function).get_concrete_function(tf.TensorSpec([], tf.int32)).graph
    (found,) = [known_length(op) for op in graph.get_operations() if op.type == "Range"]
    assert found == expected
    if expected is not None:
        assert {len(function(tf.constant(start))) for start in range(4)} == {expected}
