"""The arithmetic of bounds: on figures that are given, what limits a pipeline follows."""

import pytest
import tensorflow as tf
from profiles import profile_of

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.planning.costs.cost import bounds, cores_needed, limiting

NUMBERS = tf.data.Dataset.range(1000)


def same(x):
    return x


def bound_of(found, resource):
    return next(each for each in found if each.resource == resource)


def test_calls_bound_the_rate_by_the_time_of_one():
    tree = extract(NUMBERS.map(same, num_parallel_calls=2))
    cost = profile_of(tree, {ir.Map: {"seconds": 0.02, "calls": 2}}, rate=90, cores_busy=0.5)
    found = bound_of(bounds(cost, tree), "2 calls at once")
    assert found.rate == pytest.approx(100)
    assert found.share == pytest.approx(0.9)
    assert limiting(cost, tree) == found


def test_one_call_is_one_call():
    tree = extract(NUMBERS.map(same, num_parallel_calls=1))
    cost = profile_of(tree, {ir.Map: {"seconds": 0.01, "calls": 1}})
    assert bound_of(bounds(cost, tree), "1 call at once").rate == pytest.approx(100)


def test_stages_that_run_one_after_the_other_share_a_thread():
    tree = extract(NUMBERS.filter(lambda x: x > 0).batch(2).take(5))
    costs = {ir.Range: {"seconds": 0.001}, ir.Filter: {"seconds": 0.004}, ir.Batch: {"seconds": 0.005}}
    found = limiting(profile_of(tree, costs, rate=95, cores_busy=0.9), tree)
    assert found.resource == "one element at a time"
    assert found.rate == pytest.approx(100)
    assert found.stage.stage == "batch(2)"
    assert found.share == pytest.approx(0.95)


def test_a_stage_that_works_ahead_ends_a_thread_and_begins_another():
    tree = extract(NUMBERS.filter(lambda x: x > 0).prefetch(2).batch(2))
    costs = {
        ir.Filter: {"seconds": 0.008},
        ir.Prefetch: {"ahead": True},
        ir.Batch: {"seconds": 0.002},
    }
    found = [each for each in bounds(profile_of(tree, costs), tree) if each.resource == "one element at a time"]
    assert {each.stage.stage: round(each.rate) for each in found} == {"filter(<lambda>)": 125, "batch(2)": 500}


def test_a_parallel_stage_reads_its_input_in_one_thread():
    tree = extract(NUMBERS.batch(2).map(same, num_parallel_calls=8))
    costs = {ir.Range: {"seconds": 0.001}, ir.Batch: {"seconds": 0.009}, ir.Map: {"seconds": 0.01, "calls": 8}}
    cost = profile_of(tree, costs, rate=99, cores_busy=2)
    found = limiting(cost, tree)
    assert (found.stage.stage, found.resource, round(found.rate)) == ("batch(2)", "one element at a time", 100)


def test_each_branch_of_a_zip_is_read_by_the_same_thread():
    tree = extract(tf.data.Dataset.zip((NUMBERS.batch(2), NUMBERS.batch(2))))
    found = limiting(profile_of(tree, {ir.Batch: {"seconds": 0.004}, ir.Zip: {"seconds": 0.002}}, rate=90), tree)
    assert found.rate == pytest.approx(100)


def test_busy_cores_limit_whatever_else_is_busy():
    tree = extract(NUMBERS.map(same, num_parallel_calls=4).batch(2))
    costs = {ir.Map: {"seconds": 0.04, "calls": 4, "share": 0.9}, ir.Batch: {"seconds": 0.001}}
    found = limiting(profile_of(tree, costs, rate=100, cores_busy=3.8), tree)
    assert found.resource == "4 cores"
    assert found.stage.stage == "map(same, calls=4)"
    assert found.rate == pytest.approx(100 * 4 / 3.8)


def test_idle_cores_do_not():
    tree = extract(NUMBERS.map(same, num_parallel_calls=4))
    costs = {ir.Map: {"seconds": 0.04, "calls": 4}}
    assert limiting(profile_of(tree, costs, cores_busy=1), tree).resource == "4 calls at once"


def test_a_pipeline_of_which_nothing_was_counted_has_no_bounds():
    tree = extract(NUMBERS.batch(2))
    cost = profile_of(tree, {})
    nothing = type(cost)((), cost.stretch, 0, False, 0, cost.machine)
    assert bounds(nothing, tree) == ()
    assert limiting(nothing, tree) is None


def test_stages_that_cost_nothing_leave_the_cores():
    tree = extract(NUMBERS.batch(2))
    assert limiting(profile_of(tree, {}), tree).resource == "4 cores"


def test_cores_needed_follow_from_the_cpu_time_of_an_element():
    cost = profile_of(extract(NUMBERS), {}, rate=100, cores_busy=2)
    assert cores_needed(cost, 400) == pytest.approx(8)
    assert cores_needed(profile_of(extract(NUMBERS), {}, rate=0), 400) == 0
