from dataclasses import replace

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "select_before_map"
SELECT = {
    "take(0)": lambda d: d.take(0),
    "take(5)": lambda d: d.take(5),
    "take(99)": lambda d: d.take(99),
    "take(-1)": lambda d: d.take(-1),
    "skip(0)": lambda d: d.skip(0),
    "skip(5)": lambda d: d.skip(5),
    "skip(99)": lambda d: d.skip(99),
    "skip(-1)": lambda d: d.skip(-1),
    "shard(3, 0)": lambda d: d.shard(3, 0),
    "shard(3, 2)": lambda d: d.shard(3, 2),
    "shard(99, 98)": lambda d: d.shard(99, 98),
}


def double(x):
    return x * 2


def divide(x):
    return 6 // x


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def many(x):
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(x), [x])
    return {"ragged": ragged, "pair": (tf.sparse.from_dense([x, 0]), tf.strings.as_string(x))}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("select", SELECT)
def test_leaves_out_before_it_computes(select, keeps):
    dataset = SELECT[select](tf.data.Dataset.range(11).map(double))
    assert_rewrites(RULE, dataset, f"range(0, 11) | {select} | map(double)", keeps)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("select", SELECT)
def test_elements_of_any_structure_and_an_unknown_number(select):
    dataset = SELECT[select](tf.data.Dataset.range(11).filter(lambda x: x != 4).map(many))
    assert_rewrites(RULE, dataset, f"range(0, 11) | filter(<lambda>) | {select} | map(many)")


@pytest.mark.parametrize("select", SELECT)
def test_no_elements(select):
    dataset = SELECT[select](tf.data.Dataset.range(0).map(double))
    assert_rewrites(RULE, dataset, f"range(0, 0) | {select} | map(double)", Keeps.SEQUENCE)


def test_elements_without_end():
    dataset = tf.data.Dataset.range(11).repeat().map(double).shard(3, 1).skip(2).take(20)
    expected = "range(0, 11) | repeat() | shard(3, 1) | skip(2) | take(20) | map(double)"
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


def test_keeps_the_arguments_of_the_map_and_a_seeded_order():
    dataset = tf.data.Dataset.range(11).shuffle(5, seed=1).map(double, num_parallel_calls=2, deterministic=True).take(4)
    expected = "range(0, 11) | shuffle(5, seed=1) | take(4) | map(double, calls=2, deterministic=True)"
    assert_rewrites(RULE, dataset, expected)


def test_the_function_runs_only_on_what_is_left(tmp_path):
    (tmp_path / "1").write_text("one")
    names = tf.data.Dataset.range(4).map(lambda x: str(tmp_path) + "/" + tf.strings.as_string(x))
    done = apply(RULE, names.map(tf.io.read_file).shard(4, 1))
    assert [value.numpy() for value in build(done.after)] == [b"one"]


def test_an_unseeded_random_function_draws_for_fewer_elements():
    done = assert_rewrites(RULE, tf.data.Dataset.range(11).map(noisy).skip(2), "range(0, 11) | skip(2) | map(noisy)")
    assert done.steps[0].keeps is Keeps.TRAINING


def test_refuses_random_draws_where_they_must_stay():
    assert_refuses(RULE, tf.data.Dataset.range(11).map(noisy).skip(2), "it keeps training only", Keeps.ELEMENTS)
    seeded = tf.data.Dataset.range(11).map(lambda x: tf.random.uniform((), seed=7)).skip(2)
    assert_refuses(RULE, seeded, "draws random numbers from the author's seed")


def test_refuses_a_function_with_state():
    count = tf.Variable(0)
    assert_refuses(RULE, tf.data.Dataset.range(9).map(lambda x: count.assign_add(1)).take(3), "keeps state (Assign")
    python = tf.data.Dataset.range(9).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    assert_refuses(RULE, python.shard(2, 0), "runs Python code (EagerPyFunc)")


@pytest.mark.parametrize("select", ["skip(5)", "shard(3, 2)"])
def test_refuses_to_lose_an_error_where_the_sequence_is_promised(select):
    dataset = SELECT[select](tf.data.Dataset.range(1, 9).map(divide))
    assert_refuses(RULE, dataset, "may fail (FloorDiv), and", Keeps.SEQUENCE)
    assert_rewrites(RULE, dataset, f"range(1, 9) | {select} | map(divide)", Keeps.ELEMENTS)


@pytest.mark.parametrize("select", ["take(5)", "skip(5)", "shard(3, 2)"])
def test_refuses_where_errors_are_ignored(select):
    dataset = SELECT[select](tf.data.Dataset.range(9).map(divide)).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements")


def test_take_keeps_errors_where_they_are():
    dataset = tf.data.Dataset.range(1, 9).map(divide).take(3)
    assert_rewrites(RULE, dataset, "range(1, 9) | take(3) | map(divide)", Keeps.SEQUENCE)


def test_optimize_gives_the_same_elements():
    dataset = tf.data.Dataset.range(50).map(double).shard(2, 1).batch(4).skip(1).take(3)
    optimized = autopipe.optimize(dataset, keeps="sequence", seconds=0)
    assert RULE in optimized.plan.rules
    assert compare(dataset, optimized, Keeps.SEQUENCE) is None


def test_does_not_match_a_map_that_may_end_the_epoch():
    tree = extract(tf.data.Dataset.range(9).map(double).take(3))
    ending = replace(tree.input, preserve_cardinality=False)
    assert named(RULE)(tree) is not None
    assert named(RULE)(tree.on(ending)) is None


def test_does_not_match_other_orders():
    assert_no_match(RULE, tf.data.Dataset.range(9).take(3).map(double))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(double).batch(2).take(3))
