"""What is zipped of positions becomes one function of the position."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "merge_zipped_maps"
Dataset = tf.data.Dataset
SERIES = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
NOTICED = "it could be noticed that it runs on other elements or in another order"


def square(x):
    return x * x


def negative(x):
    return -x


def row(steps, x):
    return steps[x]


def endless(array):
    return Dataset.from_tensors(array).repeat()


def timeseries(**settings):
    return keras.utils.timeseries_dataset_from_array(SERIES[:-7], SERIES[7:, 0], 7, batch_size=4, **settings)


def by_the_batch(dataset):
    """Return the dataset with a map on batches in place of the zips."""
    names = (RULE, "drop_idle_stage", "merge_maps", "shuffle_before_map", "vectorize_map")
    rules = [named(name) for name in names]
    done = rewrite(extract(dataset), rules, keeps=Keeps.SEQUENCE, measurements=AlwaysFaster())
    assert {RULE, "vectorize_map"} <= {step.rule for step in done.steps}
    return build(done.after)


@pytest.mark.parametrize("keeps", Keeps)
def test_maps_of_one_range_become_one_map(keeps):
    dataset = Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).map(negative, num_parallel_calls=2)))
    assert_rewrites(RULE, dataset, "range(0, 9) | map(square and negative)", keeps)


def test_rows_of_arrays_are_taken_by_their_positions():
    rows = Dataset.from_tensor_slices({"a": SERIES, "b": [str(x) for x in range(60)]}).skip(5).take(50)
    labels = Dataset.range(50).map(square, num_parallel_calls=2)
    assert_rewrites(RULE, Dataset.zip((rows, labels)).batch(8), "range(0, 50) | map(square, calls=2) | batch(8)")


@pytest.mark.parametrize(
    ("first", "then", "merged"),
    [(4, 4, "4"), (tf.data.AUTOTUNE, 999, "999"), (tf.data.AUTOTUNE, 1, "AUTOTUNE"), (8, 1, "8")],
)
def test_as_many_calls_run_at_once_as_of_any_of_them(first, then, merged):
    sides = (Dataset.range(9).map(square, first), Dataset.range(9).map(negative, then))
    assert_rewrites(RULE, Dataset.zip(sides), f"range(0, 9) | map(square and negative, calls={merged})")


def test_calls_have_threads_of_their_own_where_those_of_one_map_had():
    first = Dataset.range(9).map(square, 4, use_unbounded_threadpool=True)
    expected = "range(0, 9) | map(square and negative, calls=4, unbounded=True)"
    assert_rewrites(RULE, Dataset.zip((first, Dataset.range(9).map(negative, 4))), expected)


def test_what_is_parallel_waits_for_no_draw_that_is_not():
    drawn = Dataset.range(9).map(lambda x: tf.random.uniform(()))
    assert_no_match(RULE, Dataset.zip((Dataset.range(9).map(square, 4), drawn)))
    done = apply(RULE, Dataset.zip((Dataset.range(9).map(square), drawn)))
    assert one_line(done.after) == "range(0, 9) | map(square and <lambda>)"


def test_the_order_stays_fixed_that_the_author_fixed_for_one_map():
    sides = (Dataset.range(9).map(square, 4, deterministic=True), Dataset.range(9).map(negative, 4))
    options = tf.data.Options()
    options.deterministic = False
    dataset = Dataset.zip(sides).with_options(options)
    # As written, that of the other one is free.
    done = apply(RULE, dataset, Keeps.TRAINING)
    assert one_line(done.after) == "range(0, 9) | map(square and negative, calls=4, deterministic=True) | options"


def test_a_seeded_order_of_zipped_rows_stays_while_they_are_made_by_the_batch():
    rows = Dataset.from_tensor_slices(SERIES).map(lambda x: x * 2)
    labels = Dataset.from_tensor_slices(SERIES[:, 0]).map(lambda y: y > 0)
    dataset = Dataset.zip((rows, labels)).shuffle(60, seed=4).batch(8)
    assert compare(dataset, by_the_batch(dataset), Keeps.SEQUENCE, epochs=2) is None


def test_files_are_read_at_the_same_element_as_before(tmp_path):
    paths = [str(tmp_path / str(number)) for number in range(5)]
    for number, path in enumerate(paths):
        tf.io.write_file(path, f"text {number}")
    dataset = Dataset.zip((Dataset.from_tensor_slices(paths).map(tf.io.read_file), Dataset.range(5)))
    assert_rewrites(RULE, dataset, "range(0, 5) | map(read_file)")


def test_an_array_that_is_repeated_without_end_is_captured():
    dataset = Dataset.zip((endless(SERIES), Dataset.range(5, 50, 9))).map(row)
    pairs = Dataset.zip({"b": dataset, "a": (Dataset.range(10, 5, -1).prefetch(2), endless([1.0, 2.0]))})
    assert_rewrites(RULE, pairs, "range(0, 5) | map(row)")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("settings", [{}, {"sampling_rate": 2}, {"sequence_stride": 3}, {"shuffle": True, "seed": 5}])
def test_windows_of_keras_are_gathered_by_the_batch(settings):
    dataset = timeseries(**settings)
    gathered = by_the_batch(dataset)
    assert gathered.cardinality() == dataset.cardinality()
    assert compare(timeseries(**settings), gathered, Keeps.SEQUENCE, epochs=2) is None


def test_windows_without_targets_are_gathered_by_the_batch_too():
    dataset = keras.utils.timeseries_dataset_from_array(SERIES, None, 7, batch_size=4)
    assert compare(dataset, by_the_batch(dataset), Keeps.SEQUENCE, epochs=2) is None


def test_windows_without_targets_stay_as_they_are():
    dataset = keras.utils.timeseries_dataset_from_array(SERIES, None, 7, batch_size=None)
    after = apply(RULE, dataset).after
    assert compare(dataset, autopipe.optimize(dataset, rules=[RULE]), Keeps.SEQUENCE) is None
    assert signature(after).cardinality == 54


def test_the_length_of_windows_becomes_known():
    dataset = timeseries()
    windows, _ = signature(apply(RULE, dataset).after).element_spec
    assert (dataset.element_spec[0].shape.as_list(), windows.shape.as_list()) == ([None, None, 3], [None, 7, 3])


def test_arrays_are_not_copied():
    series = tf.constant(SERIES)
    dataset = Dataset.zip((endless(series), Dataset.range(5))).map(row)
    merged = apply(RULE, Dataset.zip((dataset, Dataset.range(5)))).after
    assert any(captured is series for captured in merged.fn.concrete.captured_inputs)


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.zip((Dataset.range(9), Dataset.range(9))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(8).map(negative))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).shuffle(3))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).repeat(2))),
        Dataset.zip((endless(1).map(square), endless(2))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.from_tensors(1))),
        Dataset.zip((Dataset.range(9).map(square), Dataset.range(9).filter(lambda x: x > 1))),
        Dataset.zip((Dataset.range(9).map(square, num_parallel_calls=2, deterministic=False), Dataset.range(9))),
        Dataset.zip((Dataset.range(9).map(lambda x: tf.sparse.from_dense([x])), Dataset.range(9))),
        Dataset.range(9).map(square),
    ],
)
def test_leaves_what_is_not_known_by_its_position_and_what_has_other_lengths(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_functions_that_draw_with_a_seed_or_count():
    drawn = Dataset.range(9).map(lambda x: tf.random.uniform((), seed=3))
    assert_refuses(RULE, Dataset.zip((drawn, Dataset.range(9))), NOTICED)
    count = tf.Variable(0)
    counted = Dataset.range(9).map(lambda x: count.assign_add(1))
    assert_refuses(RULE, Dataset.zip((counted, Dataset.range(9))), NOTICED)


def thousands(x):
    return (x + 0.1) * 1000.0


def test_sums_that_go_on_in_the_next_map_must_be_unseen():
    floats = Dataset.from_tensor_slices(SERIES[:, 0]).map(lambda x: x + 0.2).map(thousands)
    dataset = Dataset.zip((floats, Dataset.range(60)))
    assert_refuses(
        RULE, dataset, "since floats may round differently in a function that is cut or joined", Keeps.SEQUENCE
    )
    (step,) = apply(RULE, dataset).steps
    assert step.keeps is Keeps.ELEMENTS
    whole = Dataset.zip((floats.map(lambda x: tf.cast(x, tf.int64)), Dataset.range(60)))
    assert_refuses(RULE, whole, "its own Cast may turn")


def with_quotient(x):
    return x, 6 // x


def test_refuses_to_lose_an_error_in_what_a_later_map_ignores_where_the_sequence_is_promised():
    chosen = Dataset.from_tensor_slices([1, 0, 2]).map(with_quotient).map(lambda x, quotient: x)
    dataset = Dataset.zip((chosen, Dataset.range(3)))
    assert_refuses(RULE, dataset, "what is no longer computed cannot", Keeps.SEQUENCE)
    (step,) = apply(RULE, dataset).steps
    assert step.keeps is Keeps.ELEMENTS


def test_refuses_to_lose_an_error_in_a_side_that_a_later_map_ignores_where_the_sequence_is_promised():
    def chosen(then):
        both = Dataset.zip((Dataset.range(9).map(with_quotient), Dataset.range(9)))
        return apply(RULE, Dataset.zip((both.map(then), Dataset.range(9))), Keeps.SEQUENCE)

    assert any("what is no longer computed cannot" in each.reason for each in chosen(lambda pair, at: at).refusals)
    assert not chosen(lambda pair, at: (pair[1], at)).refusals


def test_refuses_under_ignore_errors():
    failing = Dataset.range(9).map(lambda x: 6 // x)
    dataset = Dataset.zip((failing, Dataset.range(9).map(square))).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would drop them too")
