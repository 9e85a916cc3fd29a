import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_interleave"
NUMBERS = tf.data.Dataset.range(7)


def uneven(x):
    return tf.data.Dataset.range(x * 7 % 5).map(lambda y: y + 100 * x)


@pytest.mark.parametrize("keeps", Keeps)
def test_reads_at_once_and_hands_over_in_turn(keeps):
    dataset = NUMBERS.interleave(uneven, cycle_length=3, block_length=2, name="mix")
    expected = "range(0, 7) | interleave(uneven, cycle=3, block=2, calls=AUTOTUNE, deterministic=True) as 'mix'"
    assert_rewrites(RULE, dataset, expected, keeps)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cycle", [1, 2, 5, 20])
@pytest.mark.parametrize("block", [1, 3, 9])
def test_the_sequence_is_the_same_for_any_cycle_and_block_and_datasets_of_any_length(cycle, block):
    dataset = tf.data.Dataset.range(23).interleave(uneven, cycle_length=cycle, block_length=block)
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_a_cycle_that_was_not_given_is_the_one_tensorflow_takes():
    dataset = tf.data.Dataset.range(40).interleave(lambda x: tf.data.Dataset.range(5).map(lambda y: y + 10 * x))
    done = apply(RULE, dataset)
    assert done.after.num_parallel_calls == tf.data.AUTOTUNE
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


def test_options_that_free_the_order_of_parallel_stages_do_not_free_the_order_of_this_one():
    options = tf.data.Options()
    options.deterministic = False
    dataset = NUMBERS.interleave(uneven, cycle_length=3).with_options(options)
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_an_empty_source_stays_empty():
    dataset = tf.data.Dataset.range(0).interleave(uneven, cycle_length=2)
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_refuses_a_function_that_keeps_state():
    count = tf.Variable(0, dtype=tf.int64)

    def counting(x):
        return tf.data.Dataset.range(count.assign_add(1) * 0 + x)

    assert_refuses(RULE, NUMBERS.interleave(counting, cycle_length=2), "keeps state")


def test_refuses_to_read_python_ahead():
    generated = tf.data.Dataset.from_generator(lambda: iter(range(5)), output_signature=tf.TensorSpec((), tf.int64))
    assert_refuses(RULE, generated.interleave(uneven, cycle_length=2), "the generator runs Python code (PyFunc)")


def test_refuses_where_errors_are_ignored():
    files = tf.data.Dataset.from_tensor_slices(["/nowhere/a", "/nowhere/b"])
    dataset = files.interleave(tf.data.TextLineDataset, cycle_length=2).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements")


def test_refuses_to_hold_many_large_elements():
    large = Answers(element_bytes=lambda node: 10 * 2**20, ram_budget=10**8)
    dataset = NUMBERS.interleave(uneven, cycle_length=10)
    assert_refuses(RULE, dataset, "90 elements at once take 900 MiB", answers=large)


def test_refuses_what_is_not_faster():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, NUMBERS.interleave(uneven, cycle_length=2), "measured 0.80x", answers=slower)


def test_does_not_match_a_parallel_interleave():
    assert_no_match(RULE, NUMBERS.interleave(uneven, cycle_length=2, num_parallel_calls=1))
