import numpy as np
import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from autopipe.verify import verify
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "filter_before_map"
PAIRS = tf.data.Dataset.from_tensor_slices((np.arange(20.0, dtype=np.float32), np.arange(20) % 3))


def blur(x, label):
    return tf.sqrt(x) * 2, label


def kept(x, label):
    return label > 0


@pytest.mark.parametrize("keeps", Keeps)
def test_filters_first_by_what_the_function_passes_through(keeps):
    dataset = PAIRS.map(blur, num_parallel_calls=2).filter(kept)
    assert_rewrites(RULE, dataset, "tensor_slices | filter(kept) | map(blur, calls=2)", keeps)


def test_filters_first_by_a_small_part_of_the_function():
    def described(x, label):
        return {"image": tf.exp(x), "label": label * 2 + 1}

    dataset = PAIRS.map(described).filter(lambda element: element["label"] > 3)
    done = assert_rewrites(RULE, dataset, "tensor_slices | filter(<lambda>) | map(described)")
    types = {op.type for op in done.after.input.predicate.concrete.graph.get_operations()}
    assert "Exp" not in types
    assert {"Mul", "Greater"} <= types


def checked(x, label):
    tf.debugging.assert_none_equal(label, tf.constant(9, label.dtype))
    return x, label


def test_a_function_that_may_fail_runs_less_often_only_where_the_sequence_need_not_be_kept():
    done = assert_rewrites(RULE, PAIRS.map(checked).filter(kept), "tensor_slices | filter(kept) | map(checked)")
    assert done.steps[0].keeps is Keeps.ELEMENTS
    assert_refuses(RULE, PAIRS.map(checked).filter(kept), "checked may fail", Keeps.SEQUENCE)


def test_an_error_of_a_dropped_element_is_gone_and_no_breach_of_less_than_the_sequence():
    numbers = tf.data.Dataset.range(12).map(lambda x: (x, x)).map(checked).filter(lambda x, label: x < 5)
    done = apply(RULE, numbers)
    assert done.steps
    assert "keeping elements" in verify(done)


def test_passes_several_maps():
    dataset = PAIRS.map(blur).map(blur).filter(kept)
    assert_rewrites(RULE, dataset, "tensor_slices | filter(kept) | map(blur) | map(blur)")


def test_ragged_sparse_and_text_pass_through():
    def made(x, label):
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(2 * label), [label, label])
        return {"r": ragged, "s": tf.sparse.from_dense([label, 0]), "t": tf.strings.as_string(label), "n": label}

    dataset = PAIRS.map(made).map(lambda e: {**e, "n": e["n"] + 1}).filter(lambda e: e["r"].nrows() > e["n"])
    assert_rewrites(RULE, dataset, "tensor_slices | filter(<lambda>) | map(made) | map(<lambda>)")
    dataset = PAIRS.map(made).filter(lambda e: tf.sparse.to_dense(e["s"])[0] > 1)
    assert_rewrites(RULE, dataset, "tensor_slices | filter(<lambda>) | map(made)")


def test_a_filter_that_looks_at_nothing_moves_too():
    dataset = PAIRS.map(blur).filter(lambda x, label: tf.constant(False))
    assert_rewrites(RULE, dataset, "tensor_slices | filter(<lambda>) | map(blur)")


def test_a_random_function_runs_less_often_only_under_training():
    dataset = PAIRS.map(lambda x, label: (x + tf.random.uniform(()), label)).filter(kept)
    done = assert_rewrites(RULE, dataset, "tensor_slices | filter(kept) | map(<lambda>)")
    assert done.steps[0].keeps is Keeps.TRAINING
    assert_refuses(RULE, dataset, "it keeps training only", Keeps.ELEMENTS)


def test_refuses_to_filter_by_what_is_drawn():
    dataset = PAIRS.map(lambda x, label: (x + tf.random.uniform(()), label)).filter(lambda x, label: x > 3)
    assert_refuses(RULE, dataset, "<lambda> draws random numbers")


def test_refuses_a_predicate_that_draws():
    assert_refuses(RULE, PAIRS.map(blur).filter(lambda x, label: tf.random.uniform(()) > 0.5), "draws random numbers")


def test_refuses_a_function_that_would_count_less():
    count = tf.Variable(0)

    def counting(x, label):
        count.assign_add(1)
        return x, label

    assert_refuses(RULE, PAIRS.map(counting).filter(kept), "keeps state")


def test_an_error_of_a_dropped_element_may_vanish_only_where_order_is_free():
    def strict(x, label):
        return tf.debugging.check_numerics(1 / x, "zero"), label

    dataset = PAIRS.map(strict).filter(kept)
    assert_refuses(RULE, dataset, "what is no longer computed cannot", Keeps.SEQUENCE)
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors() would leave out other elements")


def test_refuses_a_place_that_would_be_looked_up_in_what_the_function_takes():
    rows = tf.data.Dataset.from_tensor_slices(-np.random.default_rng(0).random((20, 8)).astype(np.float32))
    dataset = rows.map(tf.nn.relu).filter(lambda x: tf.argmax(x) == 0)
    assert_refuses(RULE, dataset, "its own ArgMax may turn")


def test_refuses_what_is_not_faster():
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, PAIRS.map(blur).filter(kept), "measured 0.80x", answers=slower)


def test_does_not_match_without_a_map():
    assert_no_match(RULE, PAIRS.filter(kept).map(blur))
    assert_no_match(RULE, PAIRS.map(blur).cache().filter(kept))
