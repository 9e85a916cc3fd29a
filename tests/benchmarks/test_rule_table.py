"""The table of what each rule buys."""

import pytest

from benchmarks.rules import __main__ as table
from benchmarks.rules._base import _COSTS, RuleResult, all_rule_cases, measure_rule


@pytest.fixture(autouse=True)
def _told_and_not_measured(monkeypatch):
    monkeypatch.setattr(table, "measure_rule", lambda case, rounds: RuleResult(case, (float(rounds), 2.0, 4.0)))


@pytest.mark.deep
def test_what_costs_half_as_much_with_the_rule_is_twice_as_good(monkeypatch):
    (case,) = (each for each in all_rule_cases() if each.rule == "merge_maps")
    monkeypatch.setitem(_COSTS, case.buys, lambda dataset, case: 1.0 if case.rule in dataset.plan.rules else 2.0)
    assert measure_rule(case, rounds=2).ratios == (2.0, 2.0)


def rows(report):
    return {
        line.split("`")[1]: line.split("|")[-2].strip() for line in report.read_text().splitlines() if "| `" in line
    }


def test_all_rules_are_measured_anew_unless_some_are_named(tmp_path):
    report = tmp_path / "RESULTS.md"
    table.main(only="", rounds=3, report=report)
    assert set(rows(report).values()) == {"3.00 (2.00-4.00)"}
    assert list(rows(report)) == sorted(rows(report))
    everything = set(rows(report))
    table.main(only="merge_maps,join_equal_sides", rounds=9, report=report)
    assert set(rows(report)) == everything
    assert {name for name, value in rows(report).items() if value == "4.00 (2.00-9.00)"} == {
        "merge_maps",
        "join_equal_sides",
    }


def test_those_that_are_named_make_a_table_of_their_own_where_there_is_none(tmp_path):
    table.main(only="merge_maps", rounds=3, report=tmp_path / "RESULTS.md")
    assert rows(tmp_path / "RESULTS.md") == {"merge_maps": "3.00 (2.00-4.00)"}
