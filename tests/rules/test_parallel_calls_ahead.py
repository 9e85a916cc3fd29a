import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_calls_ahead"
RANGE = tf.data.Dataset.range(50)
AUTOTUNE = tf.data.AUTOTUNE


def double(x):
    return x * 2


def noisy(x):
    return x + tf.random.uniform((), 0, 9, tf.int64)


def seeded(x):
    return x + tf.random.uniform((), 0, 9, tf.int64, seed=7)


@pytest.mark.parametrize("keeps", Keeps)
def test_makes_more_calls_than_autotune_and_keeps_their_order(keeps):
    dataset = RANGE.map(double, num_parallel_calls=AUTOTUNE).batch(8)
    assert_rewrites(RULE, dataset, "range(0, 50) | map(double, calls=32) | batch(8)", keeps)


@pytest.mark.parametrize(("side", "calls"), [(64, 32), (256, 32), (362, 16), (512, 8)])
def test_of_large_results_fewer_are_made_at_once(side, calls):
    dataset = RANGE.map(lambda x: tf.zeros((side, side), tf.float32), num_parallel_calls=AUTOTUNE)
    (step,) = apply(RULE, dataset).steps
    assert step.tree.num_parallel_calls == calls


def test_a_map_that_draws_becomes_parallel_where_training_is_what_counts():
    done = apply(RULE, RANGE.map(noisy))
    assert [step.keeps for step in done.steps] == [Keeps.TRAINING]
    assert_refuses(RULE, RANGE.map(noisy), "it keeps training only", Keeps.ELEMENTS)


@pytest.mark.parametrize("keeps", Keeps)
def test_draws_of_parallel_calls_are_as_free_as_before(keeps):
    done = apply(RULE, RANGE.map(noisy, num_parallel_calls=AUTOTUNE), keeps)
    assert [step.rule for step in done.steps] == ([RULE] if keeps is Keeps.TRAINING else [])


@pytest.mark.parametrize("dataset", [RANGE.map(double), RANGE.map(seeded, num_parallel_calls=AUTOTUNE)])
def test_leaves_what_parallel_map_makes_parallel_first_and_draws_in_order(dataset):
    assert_no_match(RULE, dataset)


def test_leaves_a_number_of_calls_that_the_author_chose_and_threads_of_its_own():
    assert_no_match(RULE, RANGE.map(double, num_parallel_calls=4))
    assert_no_match(RULE, RANGE.map(double, num_parallel_calls=AUTOTUNE, use_unbounded_threadpool=True))


@pytest.mark.parametrize("batch", [lambda d: d.batch(4), lambda d: d.padded_batch(4)])
def test_leaves_a_map_on_batches(batch):
    assert_no_match(RULE, batch(RANGE).map(double, num_parallel_calls=AUTOTUNE))


def test_says_nothing_of_what_a_cache_keeps():
    done = apply(RULE, RANGE.map(double, num_parallel_calls=AUTOTUNE).cache())
    assert done.after == done.before
    assert not done.refusals


def test_refuses_results_that_take_much_memory_together_and_what_is_not_faster():
    dataset = RANGE.map(double, num_parallel_calls=AUTOTUNE)
    large = Answers(element_bytes=lambda node: 10 * 2**20, ram_budget=10**9)
    assert_refuses(RULE, dataset, "32 elements at once take 320 MiB; 238 MiB is allowed", answers=large)
    assert_refuses(RULE, dataset, "measured 1.01x", answers=Answers(speed=(1.01, 0.9, 1.2)))


def test_refuses_to_run_code_upstream_ahead():
    spec = tf.TensorSpec((), tf.int64)
    generated = tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=spec)
    dataset = generated.map(double, num_parallel_calls=AUTOTUNE)
    assert_refuses(RULE, dataset, "the generator runs Python code (PyFunc), and it would run ahead")


def test_a_map_before_a_batch_does_not_take_its_calls_along_when_it_is_vectorized():
    dataset = RANGE.map(double, num_parallel_calls=32).batch(8)
    assert_rewrites("vectorize_map", dataset, "range(0, 50) | batch(8) | map(vectorized double, calls=AUTOTUNE)")


def test_whether_calls_to_spare_gain_is_measured_on_real_elements_which_stay_the_same():
    images = np.arange(256, dtype=np.uint8).repeat(64 * 64 * 3).reshape(256, 64, 64, 3)

    def with_contrast(image):
        return tf.image.adjust_contrast(tf.cast(image, tf.float32) / 255, 2.0)

    dataset = tf.data.Dataset.from_tensor_slices(images).map(with_contrast, num_parallel_calls=AUTOTUNE).batch(32)
    done = autopipe.optimize(dataset, rules=[RULE])
    rewriting = done.explain().rewriting
    (said,) = [step.proofs[-1].because for step in rewriting.steps] or [each.reason for each in rewriting.refusals]
    assert "measured" in said
    for ours, written in zip(done, dataset, strict=True):
        np.testing.assert_array_equal(ours, written)
