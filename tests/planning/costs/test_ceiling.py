"""The best rate with other numbers for the knobs: found by trying, never below what was seen already."""

import time

import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import read_knobs, with_knobs, with_thread_pool
from autopipe.pipeline.text import one_line
from autopipe.planning.costs import ceiling as module
from autopipe.planning.costs.ceiling import Ceiling, ceiling
from autopipe.planning.costs.own_caches import OwnCaches
from autopipe.planning.costs.profiling import profile_tree

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(1_000_000)


def same(x):
    return x


def wait(x):
    def sleep(value):
        time.sleep(0.02)
        return np.int64(value)

    return tf.ensure_shape(tf.numpy_function(sleep, [x], tf.int64), [])


@pytest.mark.timed
def test_more_calls_help_what_waits():
    tree = extract(NUMBERS.map(wait, num_parallel_calls=2))
    profile = profile_tree(tree, 0.4)
    best = ceiling(tree, profile, 2.0)
    assert best.rate > 4 * profile.stretch.rate
    assert best.knobs["map[wait].num_parallel_calls"] > 2


@pytest.mark.timed
def test_a_cache_that_was_filled_is_read_with_other_numbers_too():
    tree = extract(Dataset.range(25).map(wait).cache().map(wait, num_parallel_calls=1))
    with OwnCaches(tree) as caches:
        profile = profile_tree(tree, 1.5, caches)
        best = ceiling(tree, profile, 1.5, caches)
    assert not profile.filling
    assert best.rate > 4 * profile.stretch.rate


def test_nothing_is_tried_where_no_stage_makes_calls():
    tree = extract(NUMBERS.batch(2).prefetch(1))
    profile = profile_tree(tree, 0.1)
    assert ceiling(tree, profile, 100.0) == Ceiling(profile.stretch.rate, {})


@pytest.fixture
def tried(monkeypatch):
    """Stand in for running: note what would run, all at the same rate."""
    trees = []

    def rate(tree, knobs, seconds, make):
        trees.append(with_knobs(tree, knobs))
        return 1.0

    monkeypatch.setattr(module, "rate_with", rate)
    return trees


def test_what_is_slower_than_the_pipeline_as_it_is_is_not_taken(tried):
    tree = extract(NUMBERS.map(same, num_parallel_calls=2))
    profile = profile_tree(tree, 0.1)
    assert ceiling(tree, profile, 1.0) == Ceiling(profile.stretch.rate, {})
    assert len(tried) == (5 if round(profile.machine.cores) > 1 else 4)


def test_the_best_of_noisy_figures_is_run_again_and_the_mean_of_both_counts(monkeypatch):
    tree = extract(NUMBERS.map(same, num_parallel_calls=2))
    profile = profile_tree(tree, 0.1)
    as_it_is = profile.stretch.rate
    threads = 4 * round(profile.machine.cores)
    for again, expected in ((1.0, 2.0), (-3.0, 1.0)):
        of_best = iter([3.0, again])

        def rate(tree, knobs, seconds, make, of_best=of_best):
            return as_it_is * (next(of_best) if knobs["thread_pool.size"] == threads else 0.9)

        monkeypatch.setattr(module, "rate_with", rate)
        best = ceiling(tree, profile, 1.0)
        assert best.rate == pytest.approx(expected * as_it_is)
        assert best.knobs["thread_pool.size"] == threads


def test_one_call_and_ever_more_calls_and_threads_are_tried_and_other_knobs_left(tried):
    dataset = NUMBERS.map(same, num_parallel_calls=2).interleave(Dataset.range, cycle_length=3, num_parallel_calls=1)
    tree = extract(dataset.prefetch(7))
    profile = profile_tree(tree, 0.1)
    ceiling(tree, profile, 1.0)
    cores = round(profile.machine.cores)
    for each, calls in zip(tried, sorted({1, *(factor * cores for factor in (1, 4, 16, 32))}), strict=True):
        knobs = {knob.name: knob.value for knob in read_knobs(each)}
        assert knobs["map[same].num_parallel_calls"] == calls
        assert knobs["thread_pool.size"] == max(calls, cores)
        assert knobs["interleave[range].num_parallel_calls"] == min(3, calls)
        assert "prefetch(7)" in one_line(each)


def test_the_knobs_can_be_set_on_the_pipeline_in_a_pool():
    tree = extract(NUMBERS.map(wait, num_parallel_calls=1))
    best = ceiling(tree, profile_tree(tree, 0.1), 0.4)
    assert with_knobs(with_thread_pool(tree), best.knobs)


def test_short_pipelines_are_read_again_and_empty_ones_have_no_rate():
    assert module.rate_with(extract(Dataset.range(3)), {}, 0.1) > 30
    assert module.rate_with(extract(Dataset.range(3).filter(lambda x: x < 0)), {}, 0.1) == 0
