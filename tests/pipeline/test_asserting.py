"""A number of elements that the author asserts is known on both sides, and hides nothing from the rules."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.runtime.caches.filling import while_filling
from autopipe.verify import compare
from sides import Answers, apply, assert_refuses, assert_rewrites

Dataset = tf.data.Dataset


def some(number):
    """Return a dataset that only knows how many elements it has since its author says so."""
    return Dataset.range(30).filter(lambda x: x % 3 == 0).apply(tf.data.experimental.assert_cardinality(number))


def work(x):
    return tf.reduce_sum(tf.strings.length(tf.strings.as_string(tf.range(x + 500))))


def test_work_on_both_sides_is_cached_before_it():
    assert_rewrites(
        "cache_fixed_work",
        some(10).map(work).batch(4),
        "range(0, 30) | filter(<lambda>) | map(work) | cache() | assert_cardinality(10) | batch(4)",
    )
    asserted = Dataset.range(9).map(work).apply(tf.data.experimental.assert_cardinality(9)).shuffle(9, seed=1)
    assert_rewrites(
        "cache_fixed_work", asserted, "range(0, 9) | map(work) | cache() | assert_cardinality(9) | shuffle(9, seed=1)"
    )


def test_a_shuffle_of_as_many_stands_before_the_work_while_the_cache_fills():
    done = apply("cache_fixed_work", some(10).shuffle(10).map(work), answers=Answers(caching=(10.0, 1e-5)))
    source = "range(0, 30) | filter(<lambda>)"
    assert one_line(done.after) == f"{source} | map(work) | cache() | assert_cardinality(10) | shuffle(10)"
    filling = f"{source} | shuffle(10) | map(work) | cache() | assert_cardinality(10)"
    assert one_line(while_filling(done.after)) == filling


def test_the_whole_is_measured_though_a_sample_has_another_number(monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    dataset = some(10).map(work).batch(4)
    optimized = autopipe.optimize(dataset)
    assert not any("assert" in refusal.because for refusal in optimized.explain().rewriting.refusals)
    assert optimized.cardinality() == 3
    assert compare(dataset, optimized, Keeps.SEQUENCE, epochs=3) is None


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("number", [9, 11])
def test_another_number_is_an_error_in_every_epoch(number, shuffled, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (0.1, 1e-4))
    dataset = some(number).shuffle(number) if shuffled else some(number)
    optimized = autopipe.optimize(dataset.map(work), rules=["cache_fixed_work"])
    assert optimized.plan.rules == ("cache_fixed_work",)
    for _ in range(3):
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"contain {number} elements"):
            list(optimized)


def test_refuses_a_cache_that_would_hide_that_the_number_is_another():
    assert_refuses(
        "cache_fixed_work",
        some(9).batch(2).map(lambda batch: work(batch[0])),
        "assert_cardinality(9) may fail at the end",
    )


def test_what_the_author_caches_after_counting_is_cached_on():
    assert_rewrites(
        "cache_fixed_work",
        some(10).cache().batch(2).map(lambda batch: work(batch[0])),
        "range(0, 30) | filter(<lambda>) | assert_cardinality(10) | cache() | batch(2) | map(<lambda>) | cache()",
    )


def test_errors_that_are_left_out_of_what_is_counted_stay_left_out():
    failing = Dataset.range(9).map(lambda x: tf.debugging.check_numerics(6 / (x - 3), "")).ignore_errors()
    assert_refuses("cache_fixed_work", failing.apply(tf.data.experimental.assert_cardinality(8)), "ignore_errors()")


def test_a_dataset_that_tells_its_own_number_is_the_same_tree_twice():
    dataset = some(10)
    assert extract(dataset) == extract(dataset)
