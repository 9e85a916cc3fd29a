"""Each callback trains in turn from pipelines that need none."""

from dataclasses import replace
from functools import partial

import pytest
from small_model import small_model

from benchmarks import overhead, report
from benchmarks.cases import e_parse_example
from benchmarks.models import MODELS
from benchmarks.overhead import (
    AGAIN,
    CALLBACKS,
    FREE,
    MONITOR,
    PLAIN,
    SETTLED,
    TUNER,
    OverheadResult,
    in_equal_places,
    measure_overhead,
)

pytestmark = pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning")
TINY = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=300))


@pytest.mark.deep
def test_every_callback_trains_in_every_round_from_both_pipelines(tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, TINY.name, small_model)
    monkeypatch.setattr(overhead, "_EPOCHS_IN_ONE", 2)
    monkeypatch.setattr(overhead, "_METERED_EPOCHS_IN_ROTATION", 4)
    told = []
    results = measure_overhead(TINY, tmp_path, rotations=1, seconds=0.0, on_round=told.append)
    assert [each.pipeline for each in results] == ["best", FREE]
    for each in results:
        assert list(each.rates) == list(CALLBACKS)
        assert all(len(rates) == len(CALLBACKS) and min(rates) > 0 for rates in each.rates.values())
        assert each.shares[PLAIN] == each.shares[AGAIN] == (0.0,) * len(CALLBACKS)
        assert all(share != 0 and abs(share) < 1 for name in (MONITOR, SETTLED, TUNER) for share in each.shares[name])
        assert 0 <= each.meter_seconds < 0.1
    assert told == ["first", *(f"{number} of {len(CALLBACKS)}" for number in range(1, len(CALLBACKS) + 1))] * 2


def test_everyone_has_each_place_once_in_a_rotation():
    names = list(CALLBACKS)
    orders = [overhead._turned(names, number) for number in range(len(names))]
    assert all(sorted(place) == sorted(names) for place in zip(*orders, strict=True))


def test_what_a_place_is_faster_is_taken_out():
    true = {"a": 100.0, "b": 120.0, "c": 90.0}
    factors = (1.0, 1.1, 0.8)
    orders = (["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"])
    seen = [{name: true[name] * factor for name, factor in zip(order, factors, strict=True)} for order in orders]
    for rates in in_equal_places(seen):
        assert rates["b"] / rates["a"] == pytest.approx(1.2)
        assert rates["c"] / rates["a"] == pytest.approx(0.9)


def test_both_trainings_without_a_callback_are_what_is_compared_with():
    rates = {PLAIN: (100.0,), AGAIN: (121.0,), MONITOR: (110.0,)}
    result = OverheadResult("e", "examples", FREE, 480, rates, {}, meter_seconds=0.0)
    assert result.ratio(MONITOR).median == pytest.approx(1.0)
    assert result.ratio(AGAIN).median == pytest.approx(1.21)
    # As in results of a time when there was one.
    old = replace(result, rates={PLAIN: (100.0,), MONITOR: (110.0,)})
    assert old.ratio(MONITOR).median == pytest.approx(1.1)


def test_the_table_shows_ratios_within_a_round_and_what_is_taken_of_a_step():
    rates = {
        PLAIN: (100.0, 200.0),
        AGAIN: (100.0, 200.0),
        MONITOR: (99.0, 198.0),
        SETTLED: (90.0, 200.0),
        TUNER: (80.0, 160.0),
    }
    shares = {PLAIN: (0.0, 0.0), AGAIN: (0.0, 0.0), MONITOR: (0.001, 0.003), SETTLED: (0.0, 0.0), TUNER: (0.1, 0.2)}
    result = OverheadResult("e", "examples", FREE, 480, rates, shares, meter_seconds=0.00005)
    text = report.markdown(report.Results(overhead=[result]))
    row = (
        "| e | examples | free input | 480 | 5.00 | 1.000 (1.000-1.000) | 0.990 (0.990-0.990) | 1.20% "
        "| 0.950 (0.900-1.000) | 1.00% | 0.800 (0.800-0.800) | 16.00% |"
    )
    assert row in text
