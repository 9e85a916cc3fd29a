"""The searches are compared with a grid that is really tried, each found setting in every round."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.search_spaces import default
from autopipe.tuning.offline.choices import Choices
from autopipe.tuning.offline.structures import OPTIMIZED, structures
from benchmarks import report
from benchmarks.cases import k_remote_storage
from benchmarks.search import (
    BEST,
    BEST_NUMBERS,
    GIVEN,
    LIVE,
    OFFLINE,
    SEARCHED,
    SHORT,
    SHORT_UNSEEDED,
    UNSEEDED,
    SearchResult,
    _grids,
    measure_search,
)

pytestmark = pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning")


@pytest.mark.deep
@pytest.mark.timed
def test_a_pipeline_that_waits_is_tuned_to_near_the_best_of_the_grid(tmp_path, monkeypatch):
    from autopipe.tuning.offline import session
    from benchmarks import search

    searches = {OFFLINE: (True, 2, 1), UNSEEDED: (False, 1, 1), SHORT: (True, 1, 1), SHORT_UNSEEDED: (False, 1, 1)}
    monkeypatch.setattr(search, "_SEARCHES", searches)
    monkeypatch.setattr(k_remote_storage, "_SECONDS", 0.005)
    # They set how long it may take: on a machine that is busy, the first of them comes to an end after 4 seconds.
    monkeypatch.setattr(search, "_LIVE_TRIALS", 12)
    # What is many times as fast has won by then.
    monkeypatch.setattr(session, "_MOST_FINAL_PAIRS", 3)
    monkeypatch.setattr(session, "_PAIRS_TO_STATE", 3)
    monkeypatch.setattr(search, "_MOST_PER_KNOB", 2)
    monkeypatch.setattr(search, "_LARGER", {"remote_storage": {"count": 60}})
    case = k_remote_storage.CASES[0]
    assert case.name in SEARCHED
    told = []
    result = measure_search(case, tmp_path, seconds=0.05, rounds=2, final_rounds=3, on_step=told.append)
    assert f"setting {result.settings} of {result.settings}" in told
    assert set(result.rates) == {GIVEN, LIVE, OFFLINE, UNSEEDED, SHORT, SHORT_UNSEEDED, BEST, BEST_NUMBERS}
    assert all(len(rates) == 3 for rates in result.rates.values())
    assert result.structures[BEST_NUMBERS] == result.structures[LIVE] == OPTIMIZED
    assert result.ratio(LIVE, GIVEN).median > 1.2
    assert result.ratio(OFFLINE, GIVEN).median > 1.2
    more_at_once = ("num_parallel_calls", "use_unbounded_threadpool")
    assert any(name.endswith(more_at_once) for name in result.knobs[LIVE])


def test_the_grid_holds_each_setting_once_and_only_such_as_the_pipeline_takes():
    written = tf.data.Dataset.range(8).interleave(
        lambda number: tf.data.Dataset.range(number), cycle_length=3, num_parallel_calls=tf.data.AUTOTUNE
    )
    dataset = autopipe.optimize(written.map(lambda number: number + 1, num_parallel_calls=tf.data.AUTOTUNE))
    choices = Choices.of(dataset, default, structures(dataset))
    settings = [knobs for _, knobs in _grids(choices, {name: each.knobs for name, each in choices.datasets.items()})]
    assert len({tuple(sorted(knobs.items())) for knobs in settings}) == len(settings)
    calls = {tuple(value for name, value in knobs.items() if "parallel_calls" in name) for knobs in settings}
    assert max(calls)[0] <= 3 < max(calls)[1]
    for knobs in settings:
        dataset.retune(knobs)


_RATES = {
    GIVEN: (1.0, 2.0),
    LIVE: (4.0, 8.0),
    OFFLINE: (5.0, 10.0),
    UNSEEDED: (2.0, 4.0),
    SHORT: (4.5, 9.0),
    SHORT_UNSEEDED: (1.0, 2.0),
    BEST: (5.0, 10.0),
    BEST_NUMBERS: (4.0, 8.0),
}


def test_the_table_shows_ratios_within_a_round():
    line = _line_of(_RATES)
    assert line.startswith("| k | remote | 4.00 (4.00-4.00) | 1.00 (1.00-1.00) | 0.80 (0.80-0.80) | 5.00 (5.00-5.00) |")
    assert "| 0.90 (0.90-0.90) | 0.20 (0.20-0.20) | 2.50 (2.50-2.50) | 4.50 (4.50-4.50) | 60 |" in line
    assert line.endswith("| 60 | map[f].num_parallel_calls=8 | as written |")


def test_results_from_before_a_reference_was_measured_are_shown_without_it():
    line = _line_of({name: rates for name, rates in _RATES.items() if name != BEST_NUMBERS})
    assert line.startswith("| k | remote | 4.00 (4.00-4.00) | not measured | 0.80 (0.80-0.80) |")


def _line_of(rates):
    structures = dict.fromkeys(rates, OPTIMIZED) | {BEST: "as written"}
    knobs = {name: {} for name in rates} | {LIVE: {"map[f].num_parallel_calls": 8}}
    text = report.markdown(report.Results(search=[SearchResult("k", "remote", rates, structures, knobs, 60)]))
    return next(line for line in text.splitlines() if line.startswith("| k | remote |"))
