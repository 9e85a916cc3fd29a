import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from sides import assert_no_match, assert_refuses, assert_rewrites

RULE = "prefetch_at_end"


@pytest.mark.parametrize("keeps", Keeps)
def test_reads_ahead_of_the_consumer(keeps):
    dataset = tf.data.Dataset.range(9).batch(2)
    assert_rewrites(RULE, dataset, "range(0, 9) | batch(2) | prefetch(AUTOTUNE)", keeps)


def test_reads_ahead_of_random_draws_since_their_order_stays():
    dataset = tf.data.Dataset.range(9).map(lambda x: tf.random.uniform((), seed=2))
    assert_rewrites(RULE, dataset, "range(0, 9) | map(<lambda>) | prefetch(AUTOTUNE)", Keeps.SEQUENCE)


def test_reads_ahead_of_draws_from_a_generator_that_others_may_share_where_only_training_is_kept():
    generator = tf.random.Generator.from_seed(1)
    dataset = tf.data.Dataset.range(9).map(lambda x: generator.uniform(()))
    done = assert_rewrites(RULE, dataset, "range(0, 9) | map(<lambda>) | prefetch(AUTOTUNE)")
    assert done.steps[0].keeps is Keeps.TRAINING
    assert_refuses(RULE, dataset, "it would run ahead", Keeps.ELEMENTS)


def test_refuses_a_generator():
    dataset = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec((), tf.int32))
    assert_refuses(RULE, dataset, "the generator runs Python code (PyFunc), and it would run ahead")


def test_refuses_a_map_that_counts_in_a_variable():
    count = tf.Variable(0)

    def counting(x):
        count.assign_add(1)
        return x

    dataset = tf.data.Dataset.range(9).map(counting).batch(2)
    assert_refuses(RULE, dataset, "counting keeps state (AssignAddVariableOp), and it would run ahead")


def test_refuses_what_autopipe_cannot_see_into():
    dataset = tf.data.Dataset.range(9).unique()
    assert_refuses(RULE, dataset, "cannot see inside")


def test_draws_no_order_of_a_seed_early_where_tensorflow_would_not():
    without_autotune, without_defaults, without_prefetch = (tf.data.Options() for _ in range(3))
    without_autotune.autotune.enabled = False
    without_defaults.experimental_optimization.apply_default_optimizations = False
    without_prefetch.experimental_optimization.inject_prefetch = False
    numbers = tf.data.Dataset.range(9)
    for options in (without_autotune, without_defaults, without_prefetch):
        seeded = numbers.shuffle(9, seed=3).repeat().batch(4).with_options(options)
        assert_refuses(RULE, seeded, "each repetition draws its order from a seed")
        once = numbers.shuffle(9, seed=3).batch(4).with_options(options)
        assert_rewrites(RULE, once, "range(0, 9) | shuffle(9, seed=3) | batch(4) | options | prefetch(AUTOTUNE)")
    seeded = numbers.shuffle(9, seed=3).repeat(2).batch(4)
    assert_rewrites(RULE, seeded, "range(0, 9) | shuffle(9, seed=3) | repeat(2) | batch(4) | prefetch(AUTOTUNE)")


def test_does_not_match_a_pipeline_that_ends_in_prefetch():
    options = tf.data.Options()
    options.deterministic = True
    assert_no_match(RULE, tf.data.Dataset.range(9).prefetch(1))
    assert_no_match(RULE, tf.data.Dataset.range(9).prefetch(1).with_options(options))
