"""Costs are measured where they can be, and predicted beyond."""

import os
import statistics
from dataclasses import replace
from functools import partial

import pytest
import tensorflow as tf

from benchmarks import report, scaling
from benchmarks.cases import e_parse_example
from benchmarks.chains import chain
from benchmarks.cores import CoreScaling, run_on_cores
from benchmarks.scaling import PlanningCost, ScalingResult, TunerCost, measure_scaling
from benchmarks.serial import Stage, serial_share, stages_of

TINY = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=2_000))
SCALING = CoreScaling("a", "job", "naive", "images", ((1, (90.0, 80.0)), (2, (150.0, 160.0))), 0.01, 0.002)


@pytest.mark.parametrize("stages", [1, 2, 8, 20])
def test_a_chain_yields_the_numbers_that_its_maps_make(stages):
    total = sum(float(tf.reduce_sum(element)) for element in chain(stages, 32))
    added = sum(1 for number in range(stages - 1) if number % 7 == 0)
    assert total == sum(range(32)) + 32 * added


def test_prediction_grows_with_cores_up_to_the_serial_part():
    assert [SCALING.predicted(cores) for cores in (1, 2, 4, 8, 32)] == [100, 200, 400, 500, 500]
    assert statistics.median(SCALING.measured(2)) == 155.0
    assert SCALING.measured(4) == ()


def test_the_busiest_chain_ends_at_a_thread_boundary():
    stages = {
        1: Stage(1.0, (2,)),
        2: Stage(0.5, (3,), asynchronous=True),
        3: Stage(2.0, (4,)),
        4: Stage(4.0, (5,), asynchronous=True, ways=float("inf")),
        5: Stage(2.5, ()),
    }
    assert serial_share(stages) == 0.25
    assert serial_share({**stages, 4: replace(stages[4], ways=1.0)}) == 0.4
    assert serial_share({}) == 1.0


def work(x):
    # Drawn, so that TensorFlow does not run the map in parallel of its own accord.
    return tf.linalg.det(tf.random.uniform([120, 120]))


@pytest.mark.parametrize(("calls", "low", "high"), [(None, 0.5, 1.0), (tf.data.AUTOTUNE, 0.0, 0.4)])
def test_a_map_is_serial_unless_its_author_made_it_parallel(calls, low, high):
    stages = stages_of(tf.data.Dataset.range(1000).map(work, num_parallel_calls=calls).prefetch(2))
    assert low <= serial_share(stages) <= high


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only some systems let a process choose its cores")
def test_cores_take_turns_and_are_given_back(tmp_path):
    before = os.sched_getaffinity(0)
    result = run_on_cores(TINY, "expert", TINY.make_data(tmp_path), rounds=2, least_seconds=0.1)
    assert os.sched_getaffinity(0) == before
    assert [cores for cores, _ in result.rates] == [cores for cores in (1, 2, 4, 8, 16, 32) if cores <= len(before)]
    assert all(rate > 0 for _, rates in result.rates for rate in rates)
    assert 0 < result.serial_seconds <= result.cpu_seconds
    # A core cannot do more than a core's work, but for what clocks leave out.
    assert statistics.median(result.measured(1)) < 1.5 * result.predicted(1)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::autopipe.telemetry.TelemetryWarning")
def test_all_of_it_is_measured_and_reported(monkeypatch):
    monkeypatch.setattr(scaling, "_VARIANTS", ("expert",))
    monkeypatch.setattr(scaling, "_USUAL_STAGES", 4)
    monkeypatch.setattr(scaling, "_USUAL_ELEMENTS", 1_000)
    told = []
    result = measure_scaling(
        [TINY], repeats=1, least_seconds=0.1, tuning_seconds=1.0, stages=(3,), elements=(100,), on_step=told.append
    )
    assert told == [
        "optimize: 3 stages, 1,000 elements",
        "optimize: 4 stages, 100 elements",
        "cores: parse_example, expert",
        "tuner: parse_example",
    ]
    (length,), (size,) = result.by_stages, result.by_elements
    assert length.seconds[0] > 0
    assert size.rewrites > 0
    assert min(result.cores[0].measured(1)) > 0
    (tuner,) = result.tuner
    assert 0 <= tuner.trial_seconds <= tuner.seconds
    assert min(tuner.rate_before, tuner.rate_after) > 0
    text = report.markdown(report.Results(scaling=result))
    assert "| e | parse_example (examples) | expert |" in text


def test_the_tables_say_what_was_measured_and_what_predicted():
    costs = PlanningCost(5, 1000, (1.0, 3.0, 2.0), 4), PlanningCost(100, 1000, (9.0,), failure="it came to no end")
    tuner = TunerCost("a", "job", 10.0, 4.0, 1.5, 6, 2, 100.0, 120.0)
    text = report.markdown(report.Results(scaling=ScalingResult(costs, (), (SCALING,), (tuner,))))
    assert "| 5 | 1,000 | 2.0 (1.0-3.0) | 4 |" in text
    assert "| 100 | 1,000 | it came to no end | 0 |" in text
    assert "| 85 (80-90) / 100 | 155 (150-160) / 200 | 400 | 500 | 500 | 500 |" in text
    assert "| a | job | 10.0 | 4.0 | 40% | 1.5 | 6 | 2 | 100 | 120 |" in text


def test_results_are_read_as_they_were_written(tmp_path):
    costs = PlanningCost(5, 1000, (1.0, 3.0, 2.0), 4), PlanningCost(100, 1000, (9.0,), failure="it came to no end")
    made = report.Made("make bench", "2026-01-01", "abc", "2 cores")
    results = report.Results(made={"scaling": made}, scaling=ScalingResult(costs, (), (SCALING,), ()))
    report.write(results, tmp_path, tmp_path / "RESULTS.md")
    assert report.read(tmp_path).made == results.made
    assert report.read(tmp_path).scaling == results.scaling
