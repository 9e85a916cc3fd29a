"""Elements that carry their key are grouped as those are whose key is worked out, whatever they are made of."""

import pytest
import tensorflow as tf

from autopipe.functions.joined.keyed import is_stored, on_keyed, stored_key, with_key
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps
from autopipe.verify import compare

Dataset = tf.data.Dataset


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.range(x), [x])


KINDS = {
    "one tensor": lambda x: x,
    "two": lambda x: (x, tf.strings.as_string(x)),
    "named, nested": lambda x: {"b": (x, -x), "a": {"c": tf.fill([2, x], 1.0)}},
    "sparse": lambda x: tf.sparse.from_dense(tf.one_hot([x], 3)),
    "ragged": lambda x: (ragged(x), x),
}


KEYS = {
    "one tensor": lambda x: x % 3,
    "two": lambda x, text: x % 3,
    "named, nested": lambda element: element["b"][0] % 2,
    "sparse": lambda element: tf.reduce_sum(element.indices),
    "ragged": lambda row, x: row.nrows() + x % 4,
}


def pairs(key, window):
    """Number the elements of a window, and say which it is."""
    return window.enumerate().map(lambda number, *element: (key, number, *element))


def keyed(grouped):
    key = grouped.key_func
    paired = ir.Map(input=grouped.input, fn=with_key(key))
    return ir.GroupByWindow(
        input=paired,
        key_func=stored_key(key),
        reduce_func=on_keyed(grouped.reduce_func, key),
        window_size_func=grouped.window_size_func,
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_pairs_become_what_windows_of_elements_do(kind):
    elements = Dataset.range(1, 20).map(KINDS[kind])
    for reduce in (lambda key, window: window, pairs):
        dataset = elements.group_by_window(KEYS[kind], reduce, window_size=4)
        after = build(keyed(extract(dataset)))
        assert after.element_spec == dataset.element_spec
        assert compare(dataset, after, Keeps.SEQUENCE) is None
        assert len(list(after)) == 19


def test_a_window_knows_its_key_and_its_size_is_asked_for_by_key():
    dataset = Dataset.range(40).group_by_window(
        lambda x: x % 3,
        lambda key, window: window.batch(5).map(lambda batch: (key, batch)),
        window_size_func=lambda key: key + 2,
    )
    assert compare(dataset, build(keyed(extract(dataset))), Keeps.SEQUENCE) is None


def test_what_the_functions_capture_stays_live():
    step, added = tf.Variable(1, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)
    dataset = Dataset.range(6).group_by_window(
        lambda x: x // step, lambda _, window: window.map(lambda x: x + added).batch(9), window_size=3
    )
    after = build(keyed(extract(dataset)))
    assert compare(dataset, after, Keeps.SEQUENCE) is None
    step.assign(3)
    added.assign(10)
    assert [batch.tolist() for batch in after.as_numpy_iterator()] == [[10, 11, 12], [13, 14, 15]]


def test_the_new_key_is_known_to_be_stored():
    grouped = extract(Dataset.range(6).group_by_window(lambda x: x % 2, lambda _, window: window, window_size=3))
    assert not is_stored(grouped.key_func)
    assert is_stored(stored_key(grouped.key_func))
