from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "shuffle_before_map"
SHUFFLES = {
    "shuffle(5, seed=1)": {"buffer_size": 5, "seed": 1},
    "shuffle(99, seed=1)": {"buffer_size": 99, "seed": 1},
    "shuffle(2, seed=7, reshuffle_each_iteration=False)": {
        "buffer_size": 2,
        "seed": 7,
        "reshuffle_each_iteration": False,
    },
    "shuffle(-2, seed=1)": {"buffer_size": tf.data.UNKNOWN_CARDINALITY, "seed": 1},
}


def double(x):
    return x * 2


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def many(x):
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(x), [x])
    return {"ragged": ragged, "pair": (tf.sparse.from_dense([x, 0]), tf.strings.as_string(x))}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_shuffles_what_goes_in_and_keeps_the_order_of_a_seed(shuffle, keeps):
    dataset = tf.data.Dataset.range(50).map(double).shuffle(**SHUFFLES[shuffle])
    assert_rewrites(RULE, dataset, f"range(0, 50) | {shuffle} | map(double)", keeps)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_elements_of_any_structure_and_an_unknown_number(shuffle):
    dataset = tf.data.Dataset.range(11).filter(lambda x: x != 4).map(many, num_parallel_calls=2)
    expected = f"range(0, 11) | filter(<lambda>) | {shuffle} | map(many, calls=2)"
    assert_rewrites(RULE, dataset.shuffle(**SHUFFLES[shuffle]), expected, Keeps.SEQUENCE)


def test_a_map_goes_after_a_shuffle_and_its_repeat_which_stay_one_stage():
    shuffled = tf.data.Dataset.range(50).map(double).map(many).shuffle(9, seed=1)
    expected = "range(0, 50) | shuffle(9, seed=1) | repeat({}) | map(double) | map(many)"
    assert_rewrites(RULE, shuffled.repeat(2), expected.format(2), Keeps.SEQUENCE)
    endless = tf.data.Dataset.range(50).map(double).shuffle(9, seed=1).repeat().take(120)
    expected = "range(0, 50) | shuffle(9, seed=1) | repeat() | map(double) | take(120)"
    assert_rewrites(RULE, endless, expected, Keeps.SEQUENCE)
    twice = tf.data.Dataset.range(20).map(double).shuffle(9, seed=1).repeat(2).shuffle(9, seed=2).repeat(2)
    expected = "range(0, 20) | shuffle(9, seed=1) | repeat(2) | shuffle(9, seed=2) | repeat(2) | map(double)"
    assert_rewrites(RULE, twice, expected, Keeps.SEQUENCE)


def test_no_map_goes_between_a_shuffle_and_its_repeat():
    shuffled = tf.data.Dataset.range(50).map(double).shuffle(9)
    assert_refuses(RULE, shuffled.take(-1).repeat(), "each epoch would wait for it to fill")
    seeded = tf.data.Dataset.range(50).map(double).shuffle(9, seed=1)
    assert_refuses(RULE, seeded.take(-1).repeat(2), "draws one order fewer from a seed", Keeps.SEQUENCE)
    expected = "range(0, 50) | shuffle(9, seed=1) | map(double) | batch(4) | repeat(2)"
    assert_rewrites(RULE, seeded.batch(4).repeat(2), expected, Keeps.SEQUENCE)


def test_no_map_goes_after_a_repeat_where_the_order_of_the_next_epoch_would_be_drawn_earlier():
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    for seed, moved in ((None, True), (1, False)):
        repeated = tf.data.Dataset.range(50).map(double, num_parallel_calls=2).shuffle(9, seed=seed).repeat()
        done = apply(RULE, repeated.with_options(options), Keeps.SEQUENCE)
        assert bool(done.steps) is moved
    assert "each repetition draws its order from a seed" in done.refusals[0].reason


def test_no_elements_and_elements_without_end():
    nothing = tf.data.Dataset.range(0).map(double).shuffle(5, seed=1)
    assert_rewrites(RULE, nothing, "range(0, 0) | shuffle(5, seed=1) | map(double)")
    endless = tf.data.Dataset.range(9).repeat().map(double).shuffle(5, seed=1).take(30)
    assert_rewrites(RULE, endless, "range(0, 9) | repeat() | shuffle(5, seed=1) | map(double) | take(30)")


def test_passes_several_maps():
    dataset = (
        tf.data.Dataset.range(9).map(double, deterministic=True, num_parallel_calls=2).map(many).shuffle(4, seed=2)
    )
    expected = "range(0, 9) | shuffle(4, seed=2) | map(double, calls=2, deterministic=True) | map(many)"
    assert_rewrites(RULE, dataset, expected)


def test_an_unseeded_shuffle_holds_every_element_once():
    done = apply(RULE, tf.data.Dataset.range(9).map(double).shuffle(5))
    assert compare(tf.data.Dataset.range(9).map(double), build(done.after), Keeps.ELEMENTS) is None
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_a_function_that_draws_is_shuffled_where_draws_may_change():
    dataset = tf.data.Dataset.range(9).map(noisy).shuffle(5)
    done = assert_rewrites(RULE, dataset, "range(0, 9) | shuffle(5) | map(noisy)")
    assert done.steps[0].keeps is Keeps.TRAINING


def test_refuses_draws_that_must_stay():
    assert_refuses(RULE, tf.data.Dataset.range(9).map(noisy).shuffle(5), "it keeps training only", Keeps.ELEMENTS)
    assert_refuses(RULE, tf.data.Dataset.range(9).map(noisy).shuffle(5, seed=1), "a seed")
    seeded = tf.data.Dataset.range(9).map(lambda x: tf.random.uniform((), seed=7)).shuffle(5)
    assert_refuses(RULE, seeded, "draws random numbers from the author's seed")


def test_refuses_a_function_with_state():
    factor = tf.Variable(2, dtype=tf.int64)
    assert_refuses(RULE, tf.data.Dataset.range(9).map(lambda x: x * factor).shuffle(5), "reads a variable")
    python = tf.data.Dataset.range(9).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    assert_refuses(RULE, python.shuffle(5), "runs Python code (EagerPyFunc)")


def test_refuses_where_errors_are_ignored():
    dataset = tf.data.Dataset.range(9).map(lambda x: 6 // x).shuffle(5).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements")


def test_refuses_where_the_element_that_fails_may_be_one_that_is_not_taken():
    dataset = tf.data.Dataset.range(9).map(lambda x: 6 // x).shuffle(5)
    assert_refuses(RULE, dataset.take(3), "may fail (FloorDiv) on an element that take(3) downstream leaves out")
    safe = tf.data.Dataset.range(9).map(double).shuffle(5, seed=1).take(3)
    assert_rewrites(RULE, safe, "range(0, 9) | shuffle(5, seed=1) | map(double) | take(3)")


def test_refuses_a_buffer_of_larger_elements_and_says_how_large():
    large = Answers(element_bytes=lambda node: 100.0 if isinstance(node, ir.Map) else 2_000.0)
    dataset = tf.data.Dataset.range(9).map(double)
    said = "10,000 elements would be held, at 2,000 bytes each instead of 100"
    assert_refuses(RULE, dataset.shuffle(10_000), said, answers=large)
    assert apply(RULE, dataset.shuffle(100), answers=large).steps


def test_the_size_of_elements_is_measured_and_needs_no_known_number():
    images = tf.data.Dataset.from_tensor_slices(np.zeros((4, 8, 8), np.float32)).repeat()
    answers = SampleMeasurements()
    assert_refuses(RULE, images.map(tf.reduce_sum).shuffle(10**6), "at 256 bytes each instead of 4", answers=answers)
    done = apply(RULE, images.map(lambda image: tf.tile(image, [2, 2])).shuffle(3), answers=answers)
    assert "held, at 256 bytes each instead of 1,024" in done.steps[0].proofs[-1].because


def test_refuses_what_cannot_be_sampled():
    once = tf.data.Dataset.from_generator(lambda: iter(["a"]), output_signature=tf.TensorSpec((), tf.string))
    texts = once.map(tf.strings.upper).shuffle(3)
    assert_refuses(RULE, texts, "the size of its elements is not known", answers=SampleMeasurements())


def test_sizes_that_the_type_tells_need_no_sample():
    once = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec((), tf.int32))
    assert apply(RULE, once.map(double).shuffle(3), answers=SampleMeasurements(seconds=0)).refusals[0].rule == RULE
    assert apply(RULE, once.map(double).shuffle(3), answers=SampleMeasurements()).steps


def test_optimize_gives_the_same_elements():
    dataset = tf.data.Dataset.range(50).map(many).shuffle(20, seed=3)
    optimized = autopipe.optimize(dataset, keeps="sequence", rules=[RULE])
    assert RULE in optimized.plan.rules
    assert compare(dataset, optimized, Keeps.SEQUENCE) is None


def test_does_not_match_a_map_that_may_end_the_epoch():
    tree = extract(tf.data.Dataset.range(9).map(double).shuffle(3))
    assert named(RULE)(tree) is not None
    assert named(RULE)(tree.on(replace(tree.input, preserve_cardinality=False))) is None


def test_does_not_match_other_orders():
    assert_no_match(RULE, tf.data.Dataset.range(9).shuffle(3).map(double))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(double).cache().shuffle(3))
