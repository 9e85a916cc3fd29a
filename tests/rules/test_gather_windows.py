import itertools

import numpy as np
import pytest
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named, with_all_rules

RULE = "gather_windows"
Dataset = tf.data.Dataset


def series(n=20):
    return np.random.default_rng(0).normal(size=(n, 3)).astype("float32")


def windows(dataset, size=5, *, whole=False, **arguments):
    arguments = {"shift": 1, "drop_remainder": True} | arguments
    return dataset.window(size, **arguments).flat_map(lambda w: w.batch(size, drop_remainder=whole))


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("whole", [False, True])
def test_gathers_the_same_windows(whole, keeps):
    dataset = windows(Dataset.from_tensor_slices(series()), whole=whole)
    done = assert_rewrites(RULE, dataset, "range(0, 16) | map(gather)", keeps)
    assert int(build(done.after).cardinality()) == 16
    assert build(done.after).element_spec == tf.TensorSpec([5, 3], tf.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_every_size_shift_and_stride_of_every_length(n):
    for size, shift, stride in itertools.product((1, 2, 3), (1, 2, 4), (1, 2)):
        dataset = windows(Dataset.from_tensor_slices(np.arange(n)), size, shift=shift, stride=stride)
        done = apply(RULE, dataset)
        assert [step.rule for step in done.steps] == [RULE]
        assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=1) is None, (n, size, shift, stride)


def test_the_batch_may_leave_out_what_the_window_does_not():
    dataset = windows(Dataset.from_tensor_slices(series()), whole=True, drop_remainder=False)
    assert_rewrites(RULE, dataset, "range(0, 16) | map(gather)", Keeps.SEQUENCE)


def test_windows_that_fit_without_a_remainder():
    dataset = windows(Dataset.from_tensor_slices(series()), shift=5, drop_remainder=False)
    assert_rewrites(RULE, dataset, "range(0, 4) | map(gather)", Keeps.SEQUENCE)


def test_several_components_zipped_into_another_structure():
    rows = Dataset.from_tensor_slices((series(), np.arange(20), np.array([f"{n}" for n in range(20)])))

    def both(x, y, text):
        return Dataset.zip({"y": y.batch(4), "x": (x.batch(4), text.batch(4, num_parallel_calls=2), y.batch(4))})

    dataset = rows.window(4, 2, 3, drop_remainder=True).flat_map(both)
    assert_rewrites(RULE, dataset, "range(0, 6) | map(gather)", Keeps.SEQUENCE)


def test_one_component_of_several():
    rows = Dataset.from_tensor_slices({"x": series(), "y": np.arange(20)})
    dataset = rows.window(4, 2, drop_remainder=True).flat_map(lambda w: w["y"].batch(4))
    assert_rewrites(RULE, dataset, "range(0, 9) | map(gather)", Keeps.SEQUENCE)


def test_part_of_a_series_and_ranges():
    dataset = windows(Dataset.from_tensor_slices(series()).skip(3).take(12).skip(2))
    assert_rewrites(RULE, dataset, "range(0, 6) | map(gather)", Keeps.SEQUENCE)
    assert_rewrites(RULE, windows(Dataset.range(40, 3, -2)), "range(0, 15) | map(gather)", Keeps.SEQUENCE)
    assert_rewrites(RULE, windows(Dataset.range(9).skip(99)), "range(0, 0) | map(gather)", Keeps.SEQUENCE)


def test_the_series_is_captured_and_not_copied():
    values = tf.random.uniform((1000, 8))
    done = apply(RULE, windows(Dataset.from_tensor_slices(values)))
    assert any(captured is values for captured in done.after.fn.concrete.captured_inputs)


def test_the_gather_has_a_batched_form_of_the_same_bits():
    dataset = windows(Dataset.from_tensor_slices(series(400))).batch(64)
    rules = [named(rule) for rule in (RULE, "vectorize_map")]
    done = rewrite(extract(dataset), rules, keeps=Keeps.SEQUENCE, measurements=Answers())
    assert one_line(done.after) == "range(0, 396) | batch(64) | map(vectorized gather)"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


def test_all_rules_together_give_the_same_elements():
    dataset = windows(Dataset.from_tensor_slices(series(400))).shuffle(100, seed=2).batch(64)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None


def test_stages_behind_it_take_the_better_known_shape():
    def split(window):
        return window[:-1], window[-1]

    dataset = windows(Dataset.from_tensor_slices(series(60))).map(split).filter(lambda x, y: y[0] > 0)
    dataset = dataset.concatenate(dataset).shuffle(9, seed=2).cache().padded_batch(4)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None
    nested = windows(Dataset.from_tensor_slices(series())).batch(3).unbatch().batch(2)
    assert compare(nested, with_all_rules(nested), Keeps.SEQUENCE) is None


def test_refuses_smaller_last_windows():
    dataset = windows(Dataset.from_tensor_slices(series()), drop_remainder=False)
    assert_refuses(RULE, dataset, "the last windows are smaller")


def test_does_not_match_another_use_of_windows():
    rows = Dataset.from_tensor_slices(series())
    assert_no_match(RULE, rows.window(4, 1, drop_remainder=True).flat_map(lambda w: w.batch(3)))
    assert_no_match(RULE, rows.window(4, 1, drop_remainder=True).flat_map(lambda w: w.batch(4).map(lambda x: x * 2)))
    assert_no_match(RULE, rows.window(4, 1, drop_remainder=True).flat_map(lambda w: w.skip(1).batch(4)))
    assert_no_match(RULE, rows.window(4, 1, drop_remainder=True).flat_map(lambda w: w))
    assert_no_match(RULE, rows.window(4, 1, drop_remainder=True).interleave(lambda w: w.batch(4)))


def test_does_not_match_what_is_not_known_by_position():

    rows = Dataset.from_tensor_slices(series())
    for dataset in (rows.shuffle(3), rows.map(tf.abs), rows.repeat(2), rows.filter(lambda x: x[0] > 0), rows.cache()):
        assert_no_match(RULE, windows(dataset))
    ragged = Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []] * 3))
    assert_no_match(RULE, windows(ragged))


def test_does_not_match_a_function_with_effects():
    def count(window):
        tf.print("a window")
        return window.batch(4)

    assert_no_match(RULE, Dataset.from_tensor_slices(series()).window(4, 1, drop_remainder=True).flat_map(count))


def test_one_window_longer_than_all_there_is_is_left_alone():
    everything = Dataset.from_tensor_slices(series()).window(2**62).flat_map(lambda rows: rows.batch(2**62))
    assert_no_match(RULE, everything)
