"""The command runs the parts that were asked for."""

import json

import pytest
import typer

from benchmarks import __main__ as command
from benchmarks import parts, report
from benchmarks.cases._base import all_cases
from benchmarks.ceilings import CeilingResult
from benchmarks.measuring import AGAIN, VARIANTS, CaseResult, VariantResult

ARGUMENTS = {"quick": False, "only": "", "part": None, "keep": False, "write_report": None}


def measure_nothing(monkeypatch, **measured):
    """Have parts measure what is given or nothing; return the list of those that ran."""
    ran = []

    def measure(run_portion, name, portion, effort):
        if name not in ran:
            ran.append(name)
        return measured.get(name, {} if name == "loaders" else None if name == "scaling" else ())

    monkeypatch.setattr(command, "run_alone", measure)
    return ran


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, list(parts.PARTS)),
        ({"quick": True}, ["cases"]),
        ({"only": "e"}, ["cases"]),
        ({"part": ["training,memory"]}, ["training", "memory"]),
        ({"part": ["memory", "training"], "quick": True}, ["training", "memory"]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_parts_are_chosen(options, expected, tmp_path, monkeypatch):
    ran = measure_nothing(monkeypatch)
    command.main(**{**ARGUMENTS, "output": tmp_path, **options})
    assert ran == expected
    assert json.loads((tmp_path / "results.json").read_text())["training"] == []
    assert f"\n| {'; '.join(expected)} | " in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("keep", "told"), [(True, ["ceilings", "ends"]), (False, ["ends"])])
def test_what_other_parts_measured_is_kept_on_demand(keep, told, tmp_path, monkeypatch):
    ceiling = CeilingResult("slow reader", 2.0, (1.5, 2.0), {"map[read].num_parallel_calls": 8}, 4)
    measure_nothing(monkeypatch, ceilings=[ceiling])
    command.main(**{**ARGUMENTS, "output": tmp_path, "part": ["ceilings"]})
    command.main(**{**ARGUMENTS, "output": tmp_path, "part": ["ends"], "keep": keep})
    results = report.read(tmp_path)
    assert list(results.made) == told
    assert list(results.ceilings) == [ceiling] * keep
    assert [made.command for made in results.made.values()] == [f"python -m benchmarks --part {name}" for name in told]


def test_an_unknown_part_is_named():
    with pytest.raises(typer.BadParameter, match="but got epochs"):
        command._chosen_parts(["training", "epochs"], few=False)


def test_a_case_that_is_named_runs_though_it_is_not_a_quick_one():
    slow = next(case for case in all_cases() if not case.quick)
    quick = next(case for case in all_cases() if case.quick)
    assert command._is_wanted(slow, {slow.name}, quick=True)
    assert command._is_wanted(slow, {slow.letter}, quick=True)
    assert not command._is_wanted(quick, {slow.name}, quick=True)
    assert command._is_wanted(quick, set(), quick=True)
    assert not command._is_wanted(slow, set(), quick=True)
    assert command._is_wanted(slow, set(), quick=False)


def test_the_report_names_the_command_that_makes_it_again():
    assert command._command(False, "", []) == "make bench"
    assert command._command(True, "", []) == "make bench-quick"
    assert command._command(True, "d,e", ["training"]) == "python -m benchmarks --quick --only d,e --part training"


def measured_case(case, rate):
    variants = {variant: VariantResult((rate,) * 5) for variant in (*VARIANTS, AGAIN)}
    return CaseResult(case.letter, case.name, case.title, case.unit, variants)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keep", [False, True])
def test_what_was_measured_is_written_though_the_next_case_is_interrupted(keep, tmp_path, monkeypatch):
    first, second = (case for case in all_cases() if case.letter == "a")
    earlier = [measured_case(case, 1.0) for case in (first, second)]
    arguments = {**ARGUMENTS, "output": tmp_path, "part": ["cases"]}
    before = report.Results().with_part("cases", earlier, report.Made.now("make bench"))
    report.write(before, tmp_path, tmp_path / "RESULTS.md")

    def measure(run_portion, name, case, effort):
        if case == second:
            raise KeyboardInterrupt
        return [measured_case(case, 2.0)]

    monkeypatch.setattr(command, "run_alone", measure)
    with pytest.raises(KeyboardInterrupt):
        command.main(**{**arguments, "keep": keep})
    results = report.read(tmp_path)
    assert list(results.cases) == [measured_case(first, 2.0), *earlier[1:]][: 1 + keep]
    assert list(results.made) == (["cases", f"cases of {first.name}"] if keep else ["cases"])
