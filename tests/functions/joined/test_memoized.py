"""What a function gave for a number is given again, whatever it is made of; what failed is tried again."""

import gc
import weakref

import pytest
import tensorflow as tf

from autopipe.functions.joined.memoized import memoized, new_table
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.range(x), [x])


KINDS = {
    "one tensor": lambda x: x * 2,
    "two": lambda x: (x, tf.strings.as_string([x])),
    "named, nested": lambda x: {"b": (x, -x), "a": {"c": tf.fill([2, x], 1.0)}},
    "sparse": lambda x: tf.sparse.from_dense(tf.one_hot([x], 3)),
    "ragged": lambda x: (ragged(x), x),
    "of no known shape": lambda x: tf.raw_ops.PlaceholderWithDefault(input=tf.fill([x], x), shape=None),
}


def call(function, number, element, table):
    return function.concrete(tf.constant(number, tf.int64), tf.constant(element, tf.int64), table)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_of_any_kind_are_given_again(kind):
    fn = extract(Dataset.range(3).map(KINDS[kind])).fn
    function, table = memoized(fn), new_table()
    first = call(function, 7, 2, table)
    again = call(function, 7, 1, table)
    for ours, theirs, expected in zip(first, again, fn.concrete(tf.constant(2, tf.int64)), strict=True):
        if ours.dtype is not tf.variant:
            assert ours.numpy().tolist() == theirs.numpy().tolist() == expected.numpy().tolist()
    assert [each.shape for each in function.concrete.outputs] == [each.shape for each in fn.concrete.outputs]


def test_another_number_is_worked_out():
    function, table = memoized(extract(Dataset.range(3).map(lambda x: x * 2)).fn), new_table()
    assert [int(call(function, number, 4 + number, table)[0]) for number in (0, 1, 0)] == [8, 10, 8]


def test_tables_know_nothing_of_each_other():
    function = memoized(extract(Dataset.range(3).map(lambda x: x * 2)).fn)
    assert [int(call(function, 0, element, new_table())[0]) for element in (4, 5)] == [8, 10]


def test_the_function_is_called_once_for_each_number():
    calls = tf.Variable(0)

    def counting(x):
        calls.assign_add(1)
        return x + 1

    function, table = memoized(extract(Dataset.range(3).map(counting)).fn), new_table()
    for number in (0, 1, 0, 1, 2):
        call(function, number, number, table)
    assert calls.numpy() == 3


def test_what_fails_is_not_kept_and_fails_again():
    function, table = memoized(extract(Dataset.range(3).map(lambda x: 6 // x)).fn), new_table()
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
            call(function, 0, 0, table)
    assert int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) == 0
    assert int(call(function, 0, 3, table)[0]) == 2


def test_an_assertion_fails_though_no_result_depends_on_it():
    def small(x):
        tf.debugging.assert_less(x, tf.constant(5, tf.int64))
        return x

    function, table = memoized(extract(Dataset.range(3).map(small)).fn), new_table()
    with pytest.raises(tf.errors.InvalidArgumentError):
        call(function, 0, 9, table)


def test_captured_tables_and_variables_stay_live():
    words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["1", "2"], [7, 8]), -1)
    offset = tf.Variable(10)
    fn = extract(Dataset.range(3).map(lambda x: words.lookup(tf.strings.as_string(x)) + offset)).fn
    function, table = memoized(fn), new_table()
    assert int(call(function, 0, 1, table)[0]) == 17
    offset.assign(20)
    assert [int(call(function, number, 2, table)[0]) for number in (0, 1)] == [17, 28]


def test_what_a_table_holds_goes_with_it():
    fn = extract(Dataset.range(3).map(lambda x: tf.fill([x], 1.0))).fn
    table = new_table()
    call(memoized(fn), 0, 2, table)
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("in_branch", [False, True])
def test_what_fails_an_assertion_alone_is_kept_by_no_race(in_branch):
    def checked(x):
        def check():
            # Slower than all else, so that the result is there long before it fails.
            spun = tf.while_loop(lambda i: i < 300, lambda i: (i + 1,), (0,))[0]
            tf.debugging.assert_none_equal(x + tf.cast(spun, tf.int64), tf.constant(305, tf.int64))
            return x

        return tf.cond(x > 2, check, lambda: x) if in_branch else check()

    function, table = memoized(extract(Dataset.range(9).map(checked)).fn), new_table()
    for _ in range(20):
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            call(function, 5, 5, table)
    assert int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) == 0
    assert int(call(function, 6, 6, table)[0]) == 6
    assert int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) == 1
