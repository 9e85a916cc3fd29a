"""Whatever an error says, a message goes on after it."""

import pytest
import tensorflow as tf

from autopipe.sentences import one_sentence


def raised(error):
    """Return what TensorFlow raises where the function of a map raises an error."""

    def fails(number):
        raise error

    numbers = tf.data.Dataset.range(3).map(lambda number: tf.py_function(fails, [number], tf.int64))
    with pytest.raises(tf.errors.OpError) as caught:
        list(numbers)
    return caught.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such word\nas this one"), "no such word."),
        (ValueError("is it full?"), "is it full?"),
        (ValueError("Wait."), "Wait."),
        (ValueError(), "ValueError."),
    ],
)
def test_it_is_one_sentence(error, said):
    assert one_sentence(error) == said


def test_an_error_without_words_is_named():
    assert one_sentence(raised(ValueError())) == "ValueError."
    assert one_sentence(raised(ValueError("it is three"))) == "ValueError: it is three."
