"""Iterators are used in every way, each pipeline in turn with what autopipe makes of it."""

from dataclasses import replace
from functools import partial

from benchmarks import report
from benchmarks.cases import e_parse_example
from benchmarks.cases._base import all_cases
from benchmarks.measuring import Ratio
from benchmarks.uses import USED, USES, WRITTEN, UsesResult, _seconds, measure_uses

RATIO = Ratio(3.0, 2.0, 4.0)
RESULT = UsesResult(
    "e",
    "parse_example",
    {use: dict.fromkeys(WRITTEN, 0.5) for use in USES},
    {use: dict.fromkeys(WRITTEN, RATIO) for use in USES},
)


def test_an_optimized_pipeline_that_takes_half_as_long_is_twice_as_fast(tmp_path, monkeypatch):
    case = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=1_200))
    monkeypatch.setattr(
        "benchmarks.uses.autopipe.optimize", lambda written, **_: written.map(lambda *x: x, name="ours")
    )
    monkeypatch.setattr("benchmarks.uses._seconds", lambda dataset, steps: 1.0 if is_ours(dataset) else 2.0)
    result = measure_uses(case, tmp_path, rounds=1)
    assert result.first == {use: dict.fromkeys(WRITTEN, 2.0) for use in USES}
    assert result.later == {use: dict.fromkeys(WRITTEN, Ratio(2.0, 2.0, 2.0)) for use in USES}


def is_ours(dataset):
    return getattr(dataset, "_name", None) == "ours"


def test_every_use_of_every_pipeline_is_timed_in_every_round(tmp_path, monkeypatch):
    told, taken = [], []
    case = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=1_200))
    monkeypatch.setattr("benchmarks.uses._seconds", lambda _dataset, steps: taken.append(steps) or 1.0)
    monkeypatch.setattr("benchmarks.uses.autopipe.optimize", lambda written, **_: written)
    result = measure_uses(case, tmp_path, rounds=2, on_turn=told.append)
    assert len(told) == len(taken) == len(WRITTEN) * len(USES) * 2 * 3
    assert taken == ([None] * 6 + [10] * 6 + [1] * 6) * 2
    assert result.later == {use: dict.fromkeys(WRITTEN, Ratio(1.0, 1.0, 1.0)) for use in USES}


def test_the_table_has_a_row_for_each_pipeline_that_was_given():
    text = report.markdown(report.Results(uses=[RESULT]))
    assert "| e | parse_example | naive | 0.50 | 3.00 (2.00-4.00) |" in text
    assert "| e | parse_example | expert | 0.50 | 3.00 (2.00-4.00) |" in text
    assert all(use.title in text for use in USES.values())


def test_the_cases_that_are_used_are_there():
    assert set(USED) <= {case.name for case in all_cases()}


def test_so_many_batches_are_taken_and_no_more():
    given = iter(range(5))
    assert _seconds(given, 3) > 0
    assert next(given) == 3
    assert _seconds(given, None) > 0
    assert next(given, None) is None
