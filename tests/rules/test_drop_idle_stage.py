import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from sides import apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "drop_idle_stage"
IDLE = {
    "take": lambda d: d.take(-1),
    "skip": lambda d: d.skip(0),
    "repeat": lambda d: d.repeat(1),
    "shard": lambda d: d.shard(1, 0),
    "shuffle": lambda d: d.shuffle(1),
    "seeded shuffle": lambda d: d.shuffle(1, seed=3),
    "shuffle once": lambda d: d.shuffle(1, seed=1, reshuffle_each_iteration=False),
    "prefetch": lambda d: d.prefetch(0),
}
SOURCES = {
    "range(0, 9)": tf.data.Dataset.range(9),
    "range(0, 0)": tf.data.Dataset.range(0),
    "tensor_slices | batch(2)": tf.data.Dataset.from_tensor_slices({"a": ["x", "yz", ""], "b": [1.0, 2.0, 3.0]}).batch(
        2
    ),
    "range(0, 9) | filter(<lambda>)": tf.data.Dataset.range(9).filter(lambda x: x > 3),
    "range(0, 5) | shuffle(5, seed=4)": tf.data.Dataset.range(5).shuffle(5, seed=4),
}


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("stage", IDLE)
def test_drops_what_hands_every_element_on(stage, keeps):
    assert_rewrites(RULE, IDLE[stage](tf.data.Dataset.range(9)).batch(4), "range(0, 9) | batch(4)", keeps)


@pytest.mark.parametrize("source", SOURCES)
def test_drops_all_of_them_whatever_the_elements(source):
    dataset = SOURCES[source]
    for add in IDLE.values():
        dataset = add(dataset)
    assert_rewrites(RULE, dataset, source, Keeps.SEQUENCE)


@pytest.mark.parametrize("option", ["noop_elimination", "apply_default_optimizations"])
def test_refuses_to_drop_a_repetition_with_which_orders_are_drawn_from_a_seed(option):
    options = tf.data.Options()
    setattr(options.experimental_optimization, option, False)

    def written(**arguments):
        shuffled = tf.data.Dataset.range(6).shuffle(6, **arguments)
        return shuffled.batch(2).repeat(1).map(lambda x: x + 1).with_options(options)

    refused = "repeat(1), and it makes shuffle(6, seed=1) draw one more order in each epoch"
    assert_refuses(RULE, written(seed=1), refused, Keeps.SEQUENCE)
    assert apply(RULE, written(), Keeps.SEQUENCE).steps
    assert apply(RULE, written(seed=1, reshuffle_each_iteration=False), Keeps.SEQUENCE).steps


def test_drops_a_repetition_of_a_seeded_shuffle_that_tensorflow_drops_as_well():
    shuffled = tf.data.Dataset.range(6).shuffle(6, seed=1).batch(2)
    assert_rewrites(RULE, shuffled.repeat(1), "range(0, 6) | shuffle(6, seed=1) | batch(2)", Keeps.SEQUENCE)


def test_drops_within_and_after_an_endless_repeat():
    dataset = tf.data.Dataset.range(3).repeat().take(-1).take(7).skip(0)
    assert_rewrites(RULE, dataset, "range(0, 3) | repeat() | take(7)", Keeps.SEQUENCE)


@pytest.mark.parametrize("end", [lambda d: d.shuffle(4, seed=2), lambda d: d.batch(4, drop_remainder=True)])
def test_drops_a_prefetch_after_a_map_that_runs_ahead_by_itself(end):
    mapped = tf.data.Dataset.range(9).map(lambda x: x * 2, num_parallel_calls=2)
    expected = one_line(extract(end(mapped)))
    assert_rewrites(RULE, end(mapped.prefetch(3)), expected, Keeps.SEQUENCE)


def test_refuses_to_drop_the_one_prefetch_where_the_end_may_have_none():
    count = tf.Variable(0)
    counted = tf.data.Dataset.range(9).map(lambda x: (x, count.assign_add(1)), num_parallel_calls=2)
    assert_refuses(RULE, counted.prefetch(3).batch(2), "keeps state (AssignAddVariableOp), and it would run ahead")


def test_leaves_a_prefetch_that_runs_ahead_for_a_sequential_map_or_for_the_consumer():
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: x * 2).prefetch(3).shuffle(4))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: x * 2, num_parallel_calls=2).prefetch(3))


def test_neighbours_that_it_parted_find_each_other():
    dataset = autopipe.optimize(tf.data.Dataset.range(9).cache().take(-1).map(lambda x: x * 2))
    assert "cache_after_map" in dataset.plan.rules
    assert [int(x) for x in dataset] == [2 * x for x in range(9)]


def test_refuses_to_drop_a_prefetch_of_nothing_where_read_ahead_would_be_seen():
    count = tf.Variable(0)
    dataset = tf.data.Dataset.range(9).map(lambda x: (x, count.assign_add(1))).prefetch(0)
    assert_refuses(RULE, dataset, "keeps state (AssignAddVariableOp), and it would run ahead")


def test_does_not_match_what_changes_something():
    numbers = tf.data.Dataset.range(9)
    for dataset in (
        numbers.take(0),
        numbers.take(9),
        numbers.skip(-1),
        numbers.skip(1),
        numbers.repeat(0),
        numbers.repeat(),
        numbers.shard(2, 0),
        numbers.prefetch(1),
        numbers.prefetch(tf.data.AUTOTUNE),
        numbers.shuffle(2),
        numbers.shuffle(tf.data.UNKNOWN_CARDINALITY),
    ):
        assert_no_match(RULE, dataset)


def test_refuses_what_parts_a_shuffle_from_a_repeat_or_is_repeated_as_one_with_it():
    shuffled = tf.data.Dataset.range(9).shuffle(9, seed=1)
    for dataset in (shuffled.prefetch(0), shuffled.batch(2).shuffle(1)):
        assert_refuses(RULE, dataset.repeat(2), "draws one order fewer from a seed")
