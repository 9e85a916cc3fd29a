"""The stage that limits a pipeline is named, and what it is short of."""

import json
from dataclasses import replace

import pytest
import tensorflow as tf
from profiles import cost_of, profile_of

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.pipeline.source_lines import noting_lines
from autopipe.planning.costs.ceiling import Ceiling
from autopipe.planning.costs.cost import Bound
from autopipe.planning.costs.diagnosis import Diagnosis, diagnose
from benchmarks import planted

NUMBERS = tf.data.Dataset.range(1000)


def same(x):
    return x


def in_python(x):
    return tf.ensure_shape(tf.numpy_function(abs, [x], tf.int64), [])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", planted.PLANTED)
def test_the_planted_stage_is_named_with_its_line(name):
    with noting_lines():
        dataset = getattr(planted, name)()
    found = diagnose(extract(dataset), 1.5)
    assert found.bottleneck.stage.stage == planted.PLANTED[name]
    assert found.bottleneck.stage.line == planted.line_of(name)
    assert planted.line_of(name) in found.verdict


def test_a_wait_that_more_calls_would_hide_is_told_from_work():
    found = diagnose(extract(planted.waiting()), 2.0)
    assert found.bottleneck.stage.stage == "map(call, calls=2)"
    assert "with other knobs it is" in found.resource


def diagnosis(function=same, *, calls=4, cores_busy=4.0, rate=100.0, best=100.0, pace=(None, None), found=True):
    """Return a diagnosis whose bottleneck is a map, on four cores."""
    tree = extract(NUMBERS.map(function, num_parallel_calls=4))
    profile = profile_of(tree, {ir.Map: {"seconds": 0.04, "calls": calls}}, rate=rate, cores_busy=cores_busy)
    bottleneck = Bound(110.0, "4 calls at once", cost_of(tree, 0.04, share=0.9, calls=calls), 0.9)
    return Diagnosis(profile, bottleneck if found else None, Ceiling(best, {}), *pace)


class TestResource:
    def test_as_many_calls_as_cores_want_cores(self):
        assert diagnosis().resource == "the 4 cores"

    def test_fewer_calls_are_too_few(self):
        assert diagnosis(calls=2).resource == "4 calls at once"

    def test_cores_that_are_idle_are_not_what_it_wants(self):
        assert diagnosis(cores_busy=0.2).resource == "4 calls at once"

    def test_python_functions_want_pythons_lock(self):
        assert diagnosis(in_python, cores_busy=1).resource == "Python's GIL"

    def test_python_functions_that_wait_do_not(self):
        assert diagnosis(in_python, cores_busy=0.05).resource == "4 calls at once"

    def test_what_other_knobs_gain_is_told(self):
        assert diagnosis(best=320).resource == "4 calls at once: with other knobs it is 3.2x as fast"

    def test_nothing_seen_is_said(self):
        assert diagnosis(found=False).resource == "nothing that was seen"
        assert "no stage could be measured" in diagnosis(found=False).verdict


class TestVerdict:
    def test_without_a_consumer_it_is_about_the_pipeline(self):
        found = diagnosis(best=120)
        assert found.verdict == (
            f"100 elements/s, at the most 120: map(same, calls=4) ({found.bottleneck.stage.line}) "
            "takes 90% of the work and is limited by the 4 cores"
        )
        assert diagnosis().waiting is None

    def test_what_is_hardly_ever_busy_limits_nothing(self):
        found = diagnosis()
        idle = replace(found, bottleneck=replace(found.bottleneck, share=0.03))
        line = found.bottleneck.stage.line
        assert idle.verdict.endswith(
            f": no stage limits it: map(same, calls=4) ({line}) is the busiest, for 3% of the time"
        )

    def test_a_stage_that_costs_more_and_is_called_at_once_is_named_beside_what_limits(self):
        tree = extract(NUMBERS.map(same, num_parallel_calls=4).batch(2))
        profile = profile_of(tree, {ir.Map: {"seconds": 0.04, "calls": 4, "share": 0.6}, ir.Batch: {"seconds": 0.02}})
        bottleneck = Bound(50.0, "one element at a time", cost_of(tree, 0.02, share=0.3), 0.9)
        found = Diagnosis(profile, bottleneck, Ceiling(100.0, {}))
        assert found.verdict.endswith(
            "limited by one element at a time (map(same, calls=4) takes 60%, 4 calls at once)"
        )

    def test_a_consumer_that_waits_is_input_bound(self):
        found = diagnosis(pace=(90.0, 200.0))
        assert found.waiting == pytest.approx(0.55)
        assert found.verdict.startswith("input-bound: 55% of each step waits; map(same, calls=4)")
        # A hundred elements per second keep four cores busy.
        assert found.verdict.endswith("needs 8 cores, has 4")

    def test_one_core_is_not_cores(self):
        assert diagnosis(pace=(10.0, 20.0)).verdict.endswith("needs 1 core, has 4")

    def test_a_consumer_that_does_not_wait_is_not_input_bound(self):
        found = diagnosis(best=300, pace=(99.0, 100.0))
        assert found.verdict.startswith("not input-bound: input could be 3.0x as fast as the consumer takes it")

    def test_a_consumer_that_is_faster_with_the_pipeline_waits_for_nothing(self):
        assert diagnosis(pace=(101.0, 100.0)).waiting == 0

    def test_it_is_plain_values(self):
        told = json.loads(json.dumps(diagnosis(pace=(90.0, 200.0)).to_dict()))
        assert told["bottleneck"] == {
            "stage": "map(same, calls=4)",
            "line": told["bottleneck"]["line"],
            "resource": "the 4 cores",
        }
        assert told["ceiling"] == 100
        assert told["consumer"]["waiting"] == pytest.approx(0.55)
        assert json.loads(json.dumps(diagnosis(found=False).to_dict()))["bottleneck"] is None
