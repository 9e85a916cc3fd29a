"""The exhaustive search tries every setting, and the table tells what is off."""

import pytest

from benchmarks import ceilings, report
from benchmarks.ceilings import CeilingResult, measure_ceiling


@pytest.mark.deep
def test_every_setting_is_tried_and_the_best_run_again():
    told = []
    result = measure_ceiling("waiting", diagnosis_seconds=1.0, seconds=0.2, repeats=2, on_setting=told.append)
    calls, threads = len({-1, *ceilings._CALLS}), len(ceilings._THREADS)
    assert told == [calls * threads] * result.settings == [result.settings] * (calls * threads)
    assert len(result.best) == 2
    # It waits 20 ms in each call, so that only many threads are fast, with many calls or as many as AUTOTUNE likes.
    assert result.knobs["map[call].num_parallel_calls"] not in (1, 2, 4)
    assert result.ratio == pytest.approx(result.stated / (sum(result.best) / 2))


def test_a_pipeline_without_parallel_calls_has_its_threads_tried():
    result = measure_ceiling("slow_reader", diagnosis_seconds=0.4, seconds=0.05, repeats=1)
    assert result.settings % len(ceilings._THREADS) == 0


def test_the_table_names_what_is_off(tmp_path):
    near = CeilingResult("near", 95.0, (90.0, 100.0, 110.0), {"map[f].num_parallel_calls": 4}, 18)
    off = CeilingResult("off", 50.0, (100.0,), {}, 3)
    report.write(report.Results(ceilings=[near, off]), tmp_path, tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| near | 95.0 | 100.0 (90.0-110.0) | 0.95 | 18 | map[f].num_parallel_calls=4 |" in text
    assert "| off | 50.0 | 100.0 | 0.50 | 3 | it has none |" in text
    assert "More than 15% off: off." in text
