"""The report says what was measured, and ratios are taken within rounds."""

import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from benchmarks import report
from benchmarks.epochs import PLANNER, LoaderResult, LoaderRun
from benchmarks.measuring import AGAIN, VARIANTS, CaseResult, VariantResult
from benchmarks.report.results import commit_of


def result(letter, name, **rates):
    by_variant = {"naive": "naive", "expert": "expert", "best": "best", "ours": VARIANTS[3], "on_expert": VARIANTS[4]}
    variants = {by_variant[key]: VariantResult(tuple(each)) for key, each in rates.items()}
    variants[AGAIN] = variants["expert"]
    return CaseResult(letter, name, f"the {name} job", "images", variants)


FAST = result(
    "a", "fast", naive=[5, 5, 5], expert=[10, 20, 40], best=[80, 160, 320], ours=[40, 80, 80], on_expert=[10, 20, 40]
)
SLOW = result(
    "b", "slow", naive=[1, 1, 1], expert=[10, 10, 10], best=[10, 10, 10], ours=[9, 9, 9], on_expert=[8, 10, 8]
)


def test_ratios_compare_neighbours_in_a_round():
    ratio = FAST.ratio("autopipe(naive)")
    assert (ratio.median, ratio.lowest, ratio.highest) == (4.0, 2.0, 4.0)
    assert str(ratio) == "4.00 (2.00-4.00)"


def test_the_summary_names_the_worst_pipelines():
    assert report.summary([FAST, SLOW]) == (
        "summary: autopipe(naive)/expert geomean 1.90 worst 0.90 (slow), autopipe(naive)/best geomean 0.67, "
        "autopipe(expert)/expert worst 0.80 (slow)"
    )


def test_what_is_left_as_written_is_shown_and_not_summarized():
    left = replace(SLOW, name="left", left_as_written=True)
    assert report.summary([FAST, left]) == report.summary([FAST])
    text = report.markdown(report.Results(cases=[FAST, left]))
    assert "| b | left* |" in text
    assert "Python code that nobody declares stateless" in text
    assert "Python code" not in report.markdown(report.Results(cases=[FAST]))


def made(command):
    return report.Made(command, "2026-11-24", "abcdef0", "a machine")


def test_a_part_that_is_measured_again_replaces_all_that_it_was():
    before = report.Results().with_part("cases", [FAST, SLOW], made("all"))
    after = before.with_part("cases", [SLOW], made("again"))
    assert (after.cases, after.made) == ([SLOW], {"cases": made("again")})


def test_cases_that_are_measured_again_leave_the_others_as_they_were():
    before = report.Results().with_part("cases", [FAST, SLOW], made("all"))
    anew = replace(FAST, unit="rows")
    after = before.with_part("cases", [anew], made("some"), only="fast")
    assert after.cases == [anew, SLOW]
    text = report.markdown(after)
    assert "| cases | 2026-11-24 | abcdef0 | `all` | 1 |" in text
    assert "| cases of fast | 2026-11-24 | abcdef0 | `some` | 1 |" in text
    assert after.with_part("cases", [SLOW], made("again")).made == {"cases": made("again")}


def test_of_cases_that_are_measured_once_more_the_last_run_is_told():
    results = report.Results()
    for only in ("slow", "fast,slow", "fast"):
        results = results.with_part("cases", [FAST, SLOW], made(only), only=only)
    assert results.made == {"cases of slow": made("fast,slow"), "cases of fast": made("fast")}


def test_the_machine_is_told_at_once_where_there_is_one():
    one, other = made("one"), replace(made("other"), machine="another machine")
    alone = report.markdown(report.Results(made={"cases": one}))
    assert alone.startswith("# Results\n\na machine.\nNot edited by hand.\n")
    both = report.markdown(report.Results(made={"cases": one, "memory": other}))
    assert "\n1. a machine.\n2. another machine.\n" in both


def test_loaders_of_one_case_leave_those_of_others_as_they_were():
    before = report.Results(loaders={"a": [LoaderResult("ours", (LoaderRun(1.0, (2.0,)),))]})
    after = before.with_part(
        "loaders", {"b": [LoaderResult("ours", (LoaderRun(3.0, (4.0,)),))]}, made("some"), only="b"
    )
    assert list(after.loaders) == ["a", "b"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_all_files_are_written(tmp_path):
    ours = LoaderResult(
        "ours", tuple(LoaderRun(*each) for each in ((1.0, (2.0, 2.0)), (1.0, (5.0, 2.0)), (2.0, (1.0, 2.0))))
    )
    theirs = LoaderResult("theirs", (LoaderRun(0.0, (9.0, 16.0)),) * 3)
    loaders = {"flowers": [ours, theirs]}
    results = report.Results(cases=[FAST, SLOW], loaders=loaders)
    report.write(results, tmp_path / "out", tmp_path / "RESULTS.md")
    content = json.loads((tmp_path / "out/results.json").read_text())
    assert [each["name"] for each in content["cases"]] == ["fast", "slow"]
    assert ET.parse(tmp_path / "out/chart.svg").getroot().tag.endswith("svg")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| a | fast | images | 5 | 20 | 160 | 80 | 4.00 (2.00-4.00) |" in text
    assert f"`{report.summary([FAST, SLOW])}`" in text
    assert "](out/chart.svg)\n" in text
    assert "| ours | 5.00 | 5.0 (3.1-5.0) | 1.00 | 2.00 | 2.00 |  |" in text


def test_what_limits_autopipe_beside_other_loaders_is_told_where_it_was_measured():
    theirs = LoaderResult("theirs", (LoaderRun(0.0, (15.0, 15.0)),))

    def told(*least):
        ours = LoaderResult(PLANNER, (LoaderRun(1.0, (3.0, 1.0), least),))
        return report.markdown(report.Results(loaders={"a": [ours, theirs]}))

    limit = "busy for 3.00 s, which would be 10.0 times. It takes 2.00 s more: 1.00 s to prepare"
    assert limit in told(2.5, 0.5)
    assert "The limit" not in told()


def test_a_part_that_did_not_run_has_no_section(tmp_path):
    report.write(report.Results(), tmp_path, tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "|" not in text
    assert "##" not in text
    assert not (tmp_path / "chart.svg").exists()
    assert json.loads((tmp_path / "results.json").read_text())["scaling"] is None


def test_code_that_was_changed_since_the_commit_is_told_and_results_are_not(tmp_path):
    def git(*given):
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x", *given], check=True)

    assert commit_of(tmp_path) == ""
    git("init", "--quiet")
    code, results = tmp_path / "code.py", tmp_path / "RESULTS.md"
    code.write_text("1\n")
    results.write_text("1\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    name = commit_of(tmp_path)
    results.write_text("2\n")
    assert commit_of(tmp_path) == name != ""
    code.write_text("2\n")
    assert commit_of(tmp_path) == f"{name} with changes"


def test_how_a_part_was_measured_names_what_its_figures_depend_on(monkeypatch):
    for whose, named in (("tensorflow", "TensorFlow's allocator"), ("glibc", "glibc"), ("unknown", "the C library")):
        monkeypatch.setattr("benchmarks.report.results.allocator", lambda answer=whose: answer)
        monkeypatch.setattr("benchmarks.report.results._processor", lambda: "a processor")
        machine = report.Made.now("a command").machine
        assert " (a processor), " in machine
        assert machine.endswith(f", tensors from {named}")


def test_of_a_part_that_was_measured_anew_case_by_case_the_first_entry_is_gone():
    half = (
        report.Results()
        .with_part("cases", [FAST, SLOW], made("all"))
        .with_part("cases", [FAST], made("fast"), only="fast")
    )
    assert set(half.made) == {"cases", "cases of fast"}
    whole = half.with_part("cases", [SLOW], made("slow"), only="slow")
    assert set(whole.made) == {"cases of fast", "cases of slow"}
