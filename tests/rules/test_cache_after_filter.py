import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_after_filter"
Dataset = tf.data.Dataset


def odd(x):
    return x % 2 > 0


def large(x):
    return x > 5


def drawn(x):
    return tf.random.uniform(()) > 0.5


@pytest.mark.parametrize("keeps", Keeps)
def test_only_what_passes_is_cached(keeps):
    dataset = Dataset.range(20).cache().filter(odd).batch(2)
    assert_rewrites(RULE, dataset, "range(0, 20) | filter(odd) | cache() | batch(2)", keeps)


def test_a_cache_goes_behind_several_filters():
    dataset = Dataset.range(20).cache().filter(odd).filter(large).shuffle(4, seed=2)
    assert_rewrites(RULE, dataset, "range(0, 20) | filter(odd) | filter(large) | cache() | shuffle(4, seed=2)")


def test_where_nothing_passes_every_epoch_is_empty():
    dataset = Dataset.range(20).cache().filter(lambda x: x < 0)
    assert_rewrites(RULE, dataset, "range(0, 20) | filter(<lambda>) | cache()")


def test_work_on_what_is_left_out_is_then_not_done_at_all():
    dataset = Dataset.range(50).map(lambda x: (x, tf.sqrt(tf.cast(x, tf.float32)))).cache().filter(lambda x, _: x < 3)
    rules = [named(RULE), named("filter_before_map")]
    done = rewrite(extract(dataset), rules, keeps=Keeps.TRAINING, measurements=AlwaysFaster())
    assert one_line(done.after) == "range(0, 50) | filter(<lambda>) | map(<lambda>) | cache()"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=2) is None


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).filter(odd).cache(),
        Dataset.range(9).cache().shuffle(3).filter(odd),
        Dataset.range(9).cache().map(lambda x: x + 1).filter(odd),
    ],
)
def test_leaves_what_is_filtered_before_or_mixed_between(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_a_predicate_that_draws():
    assert_refuses(RULE, Dataset.range(9).cache().filter(drawn), "each epoch must run it again")


def test_refuses_a_predicate_that_a_variable_changes():
    least = tf.Variable(3, dtype=tf.int64)
    assert_refuses(RULE, Dataset.range(9).cache().filter(lambda x: x > least), "each epoch must run it again")


def test_refuses_a_cache_that_others_read_too():
    cache = Dataset.range(6).shuffle(6).take(3).cache()
    assert_refuses(RULE, cache.filter(odd).concatenate(cache), "both readers get all elements from it")


def test_refuses_a_predicate_that_may_fail_where_errors_are_ignored():
    texts = Dataset.from_tensor_slices(["1", "x", "3"]).cache()
    dataset = texts.filter(lambda x: tf.strings.to_number(x) > 2).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements")


def test_refuses_a_cache_file(tmp_path):
    dataset = Dataset.range(6).cache(str(tmp_path / "elements")).filter(odd)
    assert_refuses(RULE, dataset, "may already hold elements of the old place")


def test_refuses_where_so_many_are_taken_that_the_end_may_not_be_asked_for():
    assert_refuses(RULE, Dataset.range(9).cache().filter(odd).take(4), "may stop before its end")


def test_an_element_whose_predicate_fails_still_fails():
    texts = Dataset.from_tensor_slices(["1", "x", "3"]).cache()
    dataset = autopipe.optimize(texts.filter(lambda x: tf.strings.to_number(x) > 2), rules=[RULE])
    assert RULE in dataset.plan.rules
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumber"):
            list(dataset)
