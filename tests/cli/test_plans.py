"""The commands for plans that travel: explain --plan, diff, check."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from typer.testing import CliRunner, Result

from autopipe import Plan
from autopipe.cli import check
from autopipe.cli.main import app
from autopipe.cli.targets import load_dataset
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import whole_epochs
from autopipe.planning.memory.machine import Machine
from autopipe.planning.plans.fingerprint import fingerprint

pytestmark = pytest.mark.usefixtures("project")

TARGET = "train.py:make_dataset"
HERE = Machine(cores=2, memory_bytes=2**33, available_bytes=2**32, host="ci")
RULES = ("cache_after_map", "prefetch_at_end")


def autopipe(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)


def stored_plan(target: str = TARGET, name: str = "plan.json", **fields: Any) -> Plan:
    """Store a plan for a pipeline."""
    plan = Plan(fingerprint(extract(load_dataset(target, {}))), **fields)
    plan.save(name)
    return plan


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "here", lambda: HERE)


WRONG_PLANS = [
    ("missing.json", "No such file"),
    ("folder.json", "it is not a file"),
    ("binary.json", "decode"),
    ("list.json", "it holds a list"),
    ("nan.json", "NaN is not a number"),
]


@pytest.fixture
def wrong_plans(project: Path) -> None:
    (project / "folder.json").mkdir()
    (project / "binary.json").write_bytes(b"\xff\xfe\x00")
    (project / "list.json").write_text("[]")
    (project / "nan.json").write_text('{"schema": 1, "fingerprint": "x", "knobs": {"a": NaN}}')


def assert_refused(result: Result, said: str) -> None:
    assert result.exit_code == 1
    assert not result.stdout
    assert result.stderr.startswith("error: A plan must be")
    assert result.stderr.count("error:") == 1
    assert said in " ".join(result.stderr.split())


@pytest.mark.usefixtures("wrong_plans")
@pytest.mark.parametrize(("name", "said"), WRONG_PLANS)
@pytest.mark.parametrize(
    "command",
    [
        lambda plan: ("explain", TARGET, "--plan", plan),
        lambda plan: ("diff", plan, TARGET),
        lambda plan: ("diff", TARGET, plan),
        lambda plan: ("source", TARGET, "--plan", plan),
        lambda plan: ("spaces", TARGET, "--plan", plan),
        lambda plan: ("check", TARGET, "--plan", plan),
    ],
    ids=["explain", "diff", "diff second", "source", "spaces", "check"],
)
def test_a_wrong_plan_ends_in_one_message(command: Callable[[str], tuple[str, ...]], name: str, said: str) -> None:
    result = autopipe(*command(name))
    if name == "folder.json" and result.exit_code == 2:
        assert "is a directory" in result.stderr
    else:
        assert_refused(result, said)


@pytest.mark.parametrize("command", [("explain",), ("check",), ("source",), ("spaces",)])
def test_a_plan_of_another_pipeline_is_refused(command: tuple[str, ...]) -> None:
    stored_plan()
    assert_refused(autopipe(*command, "train.py:frozen", "--plan", "plan.json"), "has changed since")


@pytest.mark.parametrize(
    "command",
    [("source", "train.py:raises"), ("diff", "train.py:raises", "train.py:frozen"), ("spaces", "train.py:raises")],
)
def test_what_the_users_code_raises_is_shown_as_its_own(command: tuple[str, ...]) -> None:
    result = autopipe(*command)
    assert result.exit_code == 3
    assert "raised by your own code, in train.py" in result.stderr
    assert 'return make_dataset()["no such [key]"]' in result.stderr
    assert "autopipe/cli" not in result.stderr


class TestExplainWithAPlan:
    def test_shows_the_pipeline_with_the_plan_applied_and_what_was_scaled(self) -> None:
        stored_plan(
            rules=RULES,
            knobs={"prefetch.buffer_size": 7, "thread_pool.size": 16},
            machine={"cores": 8, "host": "gpu-1"},
            measured={"objective": "speed", "before": 1.0, "after": 1.42},
        )
        result = autopipe("explain", TARGET, "--plan", "plan.json", "--seconds", "0")
        assert result.exit_code == 0
        said = " ".join(result.stdout.split())
        assert "structure, which holds on any machine: cache_after_map, prefetch_at_end" in said
        assert "measured speed 1 -> 1.42, elsewhere: on gpu-1 with 8 cores; here are 2 cores" in said
        assert "scaled from 8 cores to 2 cores: thread_pool.size 16 -> 4; buffers stay" in said
        assert "prefetch(7)" in said
        assert "prefetch.buffer_size = 7" in said

    def test_programs_are_told_too(self) -> None:
        stored_plan(rules=RULES, keeps="sequence", knobs={"prefetch.buffer_size": 7})
        result = autopipe("explain", TARGET, "--plan", "plan.json", "--seconds", "0", "--json")
        account = json.loads(result.stdout)
        assert account["plan"]["rules"] == list(RULES)
        assert account["after"][-1] == "prefetch(7)"

    def test_the_promise_is_that_of_the_plan(self) -> None:
        stored_plan(keeps="sequence")
        said = autopipe("explain", TARGET, "--plan", "plan.json", "--seconds", "0").stdout
        assert "keeping sequence" in " ".join(said.split())


class TestDiff:
    def test_two_equal_plans_have_no_difference(self) -> None:
        stored_plan(rules=RULES)
        stored_plan(rules=RULES, name="other.json")
        result = autopipe("diff", "plan.json", "other.json")
        assert result.exit_code == 0
        assert "no difference" in result.stdout

    def test_two_plans_that_differ_show_where(self) -> None:
        stored_plan(rules=RULES, knobs={"prefetch.buffer_size": 2}, measured={"after": 1.5})
        stored_plan(rules=RULES[1:], knobs={"prefetch.buffer_size": 4}, measured={"after": 1.5}, name="other.json")
        result = autopipe("diff", "plan.json", "other.json")
        assert result.exit_code == 1
        assert [line.strip() for line in result.stdout.splitlines()] == [
            "--- plan.json",
            "+++ other.json",
            "Rules",
            "- cache_after_map",
            "Knobs",
            "prefetch.buffer_size: 2 -> 4",
        ]

    def test_a_pipeline_equals_itself_and_differs_from_another(self) -> None:
        assert autopipe("diff", TARGET, "train:make_dataset").exit_code == 0
        result = autopipe("diff", TARGET, "train.py:frozen", "--json")
        assert result.exit_code == 1
        told = json.loads(result.stdout)
        assert told["equal"] is False
        signs = {each["stage"]: each["sign"] for each in told["stages"]}
        assert signs["map(column)"] == "-"
        assert "+" in signs.values()

    def test_a_plan_and_its_pipeline_show_what_the_plan_changes(self) -> None:
        stored_plan(rules=RULES, knobs={"prefetch.buffer_size": 7})
        lines = [line.strip() for line in autopipe("diff", TARGET, "plan.json").stdout.splitlines()]
        for line in ("+ cache_after_map", "+ prefetch(7)", "prefetch.buffer_size: none -> 7"):
            assert line in lines

    def test_a_plan_that_changes_nothing_is_equal(self) -> None:
        stored_plan()
        assert autopipe("diff", "plan.json", TARGET).exit_code == 0

    def test_a_plan_of_another_pipeline_shows_the_fingerprints(self) -> None:
        plan = stored_plan()
        result = autopipe("diff", "plan.json", "train.py:frozen", "--json")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["fingerprint"]["fingerprint"][0] == plan.fingerprint

    def test_plans_take_no_arguments(self) -> None:
        stored_plan()
        result = autopipe("diff", "plan.json", "plan.json", "--arg", "batch_size=2")
        assert result.exit_code == 2
        assert "is of a pipeline, but both are plans" in result.stderr

    def test_what_is_neither_a_plan_nor_a_pipeline_is_refused(self) -> None:
        result = autopipe("diff", "plan.txt", TARGET)
        assert result.exit_code == 2
        said = " ".join(result.stderr.replace("│", " ").split())
        assert "must be a plan, whose name ends in .json, or file.py:function, but got plan.txt" in said


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """Stand in for the measuring: each comparison gives the next of these ratios, over and over."""

    def stand_in(ratios: list[float]) -> None:
        @contextmanager
        def comparing(before: Any, after: Any) -> Iterator[Callable[[], float]]:
            state = iter(range(10**9))
            yield lambda: ratios[next(state) % len(ratios)]

        monkeypatch.setattr("autopipe.cli.check._comparing", comparing)

    return stand_in


def ratio(median: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"ratio": {"median": median, "low": low, "high": high, "comparisons": 9, "cores": 2, "host": "ci"} | more}


class TestCheck:
    def check(self, *more: str) -> Result:
        return autopipe("check", TARGET, "--plan", "plan.json", "--seconds", "0.2", *more)

    @pytest.mark.parametrize(
        ("stored", "ratios", "exit_code"),
        [
            ((2.0, 1.9, 2.1), [2.0, 2.1, 1.9], 0),
            ((2.0, 1.9, 2.1), [1.75, 1.8, 1.85], 0),
            ((2.0, 1.9, 2.1), [1.5, 1.6, 1.4], 1),
            ((2.0, 1.9, 2.1), [3.0], 0),
            # Noise widens the interval; it does not fail.
            ((2.0, 1.9, 2.1), [1.0, 2.5], 0),
            ((2.0, 1.0, 3.0), [1.2], 0),
        ],
    )
    def test_only_what_is_surely_slower_fails(
        self, measured: Any, stored: tuple[float, float, float], ratios: list[float], exit_code: int
    ) -> None:
        stored_plan(measured=ratio(*stored))
        measured(ratios)
        result = self.check()
        assert result.exit_code == exit_code
        assert len(result.stdout.splitlines()) == 1
        assert result.stdout.rstrip().endswith("slower" if exit_code else "holds")
        assert f"the plan has 2.00x ({stored[1]:.2f} to {stored[2]:.2f}), of which 10% may be lost" in result.stdout

    @pytest.mark.parametrize(("margin", "exit_code"), [("0.1", 1), ("0.5", 0)])
    def test_the_margin_is_what_may_be_lost(self, measured: Any, margin: str, exit_code: int) -> None:
        stored_plan(measured=ratio(2.0, 2.0, 2.0))
        measured([1.5])
        assert self.check("--margin", margin).exit_code == exit_code

    @pytest.mark.parametrize(("ratios", "exit_code"), [([1.3], 0), ([0.95], 0), ([0.5], 1)])
    def test_without_a_stored_ratio_the_pipeline_as_written_is_the_measure(
        self, measured: Any, ratios: list[float], exit_code: int
    ) -> None:
        stored_plan(measured={"objective": "busy", "before": 0.4, "after": 0.9})
        measured(ratios)
        result = self.check()
        assert result.exit_code == exit_code
        assert "the plan has no such ratio (--update stores one), so 0.90x is asked for" in result.stdout

    def test_a_ratio_from_other_cores_is_not_asked_for(self, measured: Any) -> None:
        stored_plan(measured=ratio(9.0, 8.0, 10.0, cores=64))
        measured([1.5])
        result = self.check()
        assert result.exit_code == 0
        assert "but from 64 cores, and here are 2, so 0.90x is asked for" in result.stdout

    def test_a_few_comparisons_never_fail(self, monkeypatch: pytest.MonkeyPatch, measured: Any) -> None:
        stored_plan(measured=ratio(2.0, 2.0, 2.0))
        measured([1.0, 1.0, 1.0, 2.5])
        result = self.check("--seconds", "0")
        assert result.exit_code == 0
        assert "in 4 comparisons" in result.stdout

    def test_update_stores_the_ratio_and_nothing_else_changes(self, measured: Any) -> None:
        plan = stored_plan(measured={"objective": "busy", **ratio(9.0, 8.0, 10.0)}, knobs={"thread_pool.size": 3})
        measured([2.0, 1.5, 3.0])
        result = self.check("--update")
        assert result.exit_code == 0
        assert result.stdout.rstrip().endswith("stored in it")
        stored = Plan.load("plan.json")
        found = stored.measured["ratio"]
        assert (found["median"], found["cores"], found["host"]) == (2.0, 2, "ci")
        assert found["low"] <= found["median"] <= found["high"]
        assert replace(stored, measured={}) == replace(plan, measured={})
        assert stored.measured["objective"] == "busy"
        assert self.check().exit_code == 0

    @pytest.mark.parametrize("wrong", [7, {"median": "fast"}, {"median": 1.0, "low": -1, "high": 2, "cores": 2}, {}])
    def test_a_damaged_ratio_is_a_plan_error(self, wrong: Any) -> None:
        stored_plan(measured={"ratio": wrong})
        result = self.check()
        assert result.exit_code == 1
        assert "A plan's ratio must have a median" in result.stderr

    def test_rules_that_were_refused_here_are_named(self, measured: Any) -> None:
        stored_plan(rules=(*RULES, "cache_before_repeat"))
        measured([1.0])
        assert "refused here: cache_before_repeat" in self.check().stderr

    def test_a_file_that_cannot_be_updated_is_a_wrong_command_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stored_plan()
        monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)
        result = autopipe("check", TARGET, "--plan", "plan.json", "--update")
        assert result.exit_code == 2
        assert "can be written to" in " ".join(result.stderr.split())

    def test_a_file_that_is_not_there_is_said_to_be_none_also_where_it_is_to_be_updated(self) -> None:
        for more in ((), ("--update",)):
            assert_refused(autopipe("check", TARGET, "--plan", "no/such/plan.json", *more), "No such file")

    @pytest.mark.parametrize("arguments", [(), ("--margin", "2"), ("--seconds", "-1")])
    def test_a_wrong_command_line_ends_with_2(self, arguments: tuple[str, ...]) -> None:
        plan = ("--plan", "plan.json") if arguments else ()
        assert autopipe("check", TARGET, *plan, *arguments).exit_code == 2

    @pytest.mark.timed
    @pytest.mark.parametrize("target", [TARGET, "train.py:runs_python"])
    def test_a_real_run_measures_both_whether_or_not_running_it_shows(self, target: str) -> None:
        stored_plan(target, rules=("prefetch_at_end",) if target == TARGET else ())
        result = autopipe("check", target, "--plan", "plan.json", "--seconds", "1", "--update")
        assert result.exit_code == 0, result.output
        found = Plan.load("plan.json").measured["ratio"]
        assert 0.2 < found["low"] <= found["median"] <= found["high"]
        assert found["comparisons"] >= 2

    def test_caches_are_full_before_anything_is_compared_though_nobody_knows_of_how_many_elements(self) -> None:
        made = []

        def elements() -> Iterator[int]:
            for number in range(40):
                made.append(number)
                yield number

        written = tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec((), tf.int64)).cache()
        with check._reading(extract(written), extract(written.prefetch(1))) as compare:
            filled = len(made)
            compare()
            assert len(made) == filled

    @pytest.mark.timeout(60)
    def test_an_epoch_that_does_not_end_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(whole_epochs, "_LONGEST_SECONDS", 0.2)
        endless = tf.data.Dataset.from_generator(itertools.count, output_signature=tf.TensorSpec((), tf.int64))
        written = tf.data.Dataset.zip((tf.data.Dataset.range(8).cache().repeat(), endless))
        with check._reading(extract(written), extract(written.prefetch(1))) as compare:
            assert compare() > 0

    def test_what_the_pipeline_raises_is_the_users_own(self) -> None:
        stored_plan("train.py:raises_late")
        result = autopipe("check", "train.py:raises_late", "--plan", "plan.json", "--seconds", "0.2")
        assert result.exit_code == 3
        assert "raised by your own code, in train.py:raises_late" in result.stderr
        assert not result.stdout
