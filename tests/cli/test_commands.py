import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from rich.console import Console
from typer.testing import CliRunner, Result

from autopipe import Plan
from autopipe.cli import tune as cli_tune
from autopipe.cli.main import app
from autopipe.cli.targets import load_dataset
from autopipe.cli.tune import _progress
from autopipe.rules import catalogue
from autopipe.tuning.offline import offline
from autopipe.tuning.search.trial import Trial
from benchmarks import planted


def autopipe(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)


def explained(*arguments: str) -> dict[str, Any]:
    """Return what ``autopipe explain --json`` prints."""
    result = autopipe("explain", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.usefixtures("project")
class TestExplain:
    @pytest.mark.usefixtures("as_fast")
    def test_says_what_it_would_do(self) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--seconds", "0")
        assert result.exit_code == 0
        assert "Pipeline as written" in result.stdout
        assert "prefetch_at_end  keeps sequence" in result.stdout

    def test_keeps_is_passed_on(self) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--keeps", "sequence", "--seconds", "0")
        assert "keeping sequence" in " ".join(result.stdout.split())

    @pytest.mark.usefixtures("as_fast")
    def test_arguments_are_literals_or_text(self) -> None:
        given = ("--arg", "batch_size=16", "--arg", "name=a=b")
        account = explained("train.py:make_dataset", *given, "--seconds", "0")
        assert account["before"][-1] == "batch(16)"
        assert [step["rule"] for step in account["steps"]]

    @pytest.mark.parametrize(
        ("target", "exit_code", "said"),
        [
            ("train.py:make_datset", 1, "Did you mean make_dataset"),
            ("train.py:empty", 1, "the one received is empty"),
            ("train.py:raises", 3, "raised by your own code, in train.py"),
            ("train.py:raises_always", 1, "every one tried"),
        ],
    )
    def test_errors_have_one_message_and_an_exit_code(self, target: str, exit_code: int, said: str) -> None:
        result = autopipe("explain", target)
        assert result.exit_code == exit_code
        assert result.stderr.count("error: ") == 1
        assert said in result.stderr
        assert not result.stdout

    def test_the_traceback_of_the_users_code_shows_only_that(self) -> None:
        traceback = autopipe("explain", "train.py:raises").stderr
        assert 'return make_dataset()["no such [key]"]' in traceback
        assert "TypeError" in traceback
        assert "targets.py" not in traceback

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("train.py:make_dataset", "--arg", "batch_size"),
            ("train.py:make_dataset", "--arg", "batch size=4"),
            ("train.py:make_dataset", "--keeps", "everything"),
        ],
    )
    def test_a_wrong_command_line_ends_with_2(self, arguments: tuple[str, ...]) -> None:
        assert autopipe("explain", *arguments).exit_code == 2


@pytest.mark.usefixtures("project")
class TestExplainCosts:
    @pytest.fixture(autouse=True)
    def _no_rules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave out what takes most of the time, and is not asked for here."""
        monkeypatch.setattr("autopipe.api._rules", lambda names: ())

    # The others are tested where it is found.
    @pytest.mark.parametrize("name", ["heavy_decode", "python_function"])
    def test_the_bottleneck_is_the_planted_line_of_the_users_file(self, name: str) -> None:
        account = explained(f"{planted.__file__}:{name}", "--seconds", "1")
        assert account["bottleneck"]["stage"] == planted.PLANTED[name]
        assert account["bottleneck"]["line"] == planted.line_of(name)
        assert planted.line_of(name) in account["verdict"]

    def test_json_tells_costs_and_findings(self) -> None:
        account = explained("train.py:make_dataset", "--seconds", "0.4")
        assert account["ceiling"] >= account["profile"]["elements_per_second"] > 0
        assert account["consumer"] is None
        assert account["verdict"].count("batches/s of 4, at the most") == 1
        lines = [each["line"] for each in account["profile"]["stages"]]
        assert lines
        assert all(line.startswith("train.py:") for line in lines)
        assert [each["stage"] for each in account["cache_sizes"]]
        assert isinstance(account["findings"], list)

    def test_the_report_begins_with_the_verdict_and_the_table(self) -> None:
        said = autopipe("explain", "train.py:make_dataset", "--seconds", "0.4").stdout
        assert "batches/s of 4, at the most" in said.splitlines()[0]
        for part in ("Stage", "cores busy", "A cache would take", "Pipeline"):
            assert part in said

    def test_no_seconds_no_costs(self) -> None:
        account = explained("train.py:make_dataset", "--seconds", "0")
        assert "verdict" not in account
        assert [each["code"] for each in explained("train.py:frozen", "--seconds", "0")["findings"]] == ["AP102"]

    def test_a_step_that_is_short_is_input_bound_and_a_long_one_is_not(self) -> None:
        target = f"{planted.__file__}:waiting"
        short = explained(target, "--seconds", "0.6", "--step-ms", "0.1")
        assert short["verdict"].startswith("input-bound: ")
        assert "AP301" in [each["code"] for each in short["findings"]]
        assert short["consumer"]["waiting"] > 0.5
        long = explained("train.py:make_dataset", "--seconds", "0.6", "--step-ms", "40")
        assert long["consumer"]["steps_per_second"] < 30
        assert long["consumer"]["waiting"] < 0.5

    def test_the_step_is_the_models_own(self) -> None:
        account = explained("train.py:make_dataset", "--seconds", "0.5", "--model", "train.py:make_model")
        assert account["consumer"]["steps_per_second"] > 0
        assert account["consumer"]["free_input"] > 0

    def test_a_step_and_a_model_are_too_much(self) -> None:
        both = ("--step-ms", "3", "--model", "train.py:make_model")
        assert autopipe("explain", "train.py:make_dataset", *both).exit_code == 2

    @pytest.mark.parametrize(
        ("codes", "exit_code"),
        [((), 0), (("AP102",), 1), (("AP101", "AP102"), 1), (("AP101",), 0)],
    )
    @pytest.mark.parametrize("as_json", [True, False])
    def test_fail_on_ends_with_1_where_the_finding_stands_out(
        self, codes: tuple[str, ...], exit_code: int, as_json: bool
    ) -> None:
        options = [option for code in codes for option in ("--fail-on", code)] + ["--json"] * as_json
        result = autopipe("explain", "train.py:frozen", "--seconds", "0", *options)
        assert result.exit_code == exit_code
        assert "AP102" in result.stdout
        assert ("Found AP102, which --fail-on names." in result.stderr) == (exit_code == 1)
        if as_json:
            assert json.loads(result.stdout)["findings"]

    @pytest.mark.parametrize(("code", "seconds", "needs"), [("AP301", "1", "--model or"), ("AP110", "0", "above")])
    def test_fail_on_takes_only_what_is_looked_for(self, code: str, seconds: str, needs: str) -> None:
        result = autopipe("explain", "train.py:frozen", "--fail-on", code, "--seconds", seconds)
        assert result.exit_code == 2
        assert f"{code} needs" in result.stderr
        assert needs in result.stderr

    def test_what_a_pipeline_prints_is_not_the_output_of_the_command(self) -> None:
        result = autopipe("explain", "train.py:runs_python", "--seconds", "0.4", "--json")
        assert json.loads(result.stdout)["profile"]

    def test_fail_on_knows_what_codes_there_are(self) -> None:
        result = autopipe("explain", "train.py:frozen", "--fail-on", "AP999")
        assert result.exit_code == 2
        assert "AP101" in result.stderr

    @pytest.mark.parametrize("seconds", ["-1", "0.01", "soon", "nan"])
    def test_seconds_have_a_law(self, seconds: str) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--seconds", seconds)
        assert result.exit_code in (1, 2)
        assert "must be" in result.stderr or "Invalid value" in result.stderr

    def test_elements_that_fail_now_and_then_are_no_obstacle(self) -> None:
        account = explained("train.py:raises_late", "--seconds", "0.4")
        assert account["profile"]["elements_per_second"] > 0

    def test_files_that_are_damaged_are_the_users_own_failure(self, project: Path) -> None:
        (project / "damaged.tfrecord").write_bytes(b"no record at all" * 99)
        result = autopipe("explain", "train.py:reads", "--seconds", "0.4")
        assert result.exit_code in (1, 3)
        assert result.stderr.count("error: ") == 1
        assert not result.stdout

    def test_a_model_that_raises_is_the_users_own_failure(self) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--seconds", "0.4", "--model", "train.py:broken_model")
        assert result.exit_code == 3
        assert "no such loss" in result.stderr
        assert "raised by your own code" in result.stderr


class TestRules:
    def test_lists_every_rule_with_its_shape(self) -> None:
        result = autopipe("rules")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        for rule in catalogue():
            (line,) = (line for line in lines if f" {rule.name} " in f" {line} ")
            assert str(rule.keeps) in line

    def test_verbose_gives_the_arguments(self) -> None:
        said = " ".join(autopipe("rules", "--verbose").stdout.split())
        for rule in catalogue():
            assert " ".join(rule.argument.split()) in said


@pytest.mark.usefixtures("project")
class TestTune:
    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """Stand in for the search: two trials, the second kept; and leave out what takes most of the time."""
        monkeypatch.setattr(
            "autopipe.api._rules", lambda names: [each for each in catalogue() if each.name == "prefetch_at_end"]
        )
        calls: list[dict[str, Any]] = []

        def tune_choices(choices: Any, consumer: Any, **options: Any) -> Plan:
            calls.append({"choices": choices, "consumer": consumer, **options})
            knobs = {"prefetch.buffer_size": 4}
            options["on_trial"](Trial(1, {"prefetch.buffer_size": 2}, -0.1, 0.0, False, 0.1, structure="optimized"))
            options["on_trial"](Trial(2, {}, -1.0, 0.0, False, 0.1, failure="it hung", structure="as written"))
            options["on_trial"](Trial(3, knobs, 0.25, 0.0, True, 0.1, structure="optimized"))
            return Plan("ab12", knobs=knobs, measured={"after": 1.25, "lowest": 1.2, "highest": 1.3, "trials": 3})

        monkeypatch.setattr(offline, "tune_choices", tune_choices)
        return calls

    def test_writes_the_plan_and_says_what_came_of_it(self, calls: list[dict[str, Any]], project: Path) -> None:
        result = autopipe(
            "tune", "train.py:make_dataset", "-o", "plan.json", "--step-ms", "12", "--trials", "3", "--seconds", "9"
        )
        assert result.exit_code == 0
        first, second, third, last = result.stdout.splitlines()
        assert first == "trial 1/3: 0.90x, best so far 1.00x: optimized, prefetch.buffer_size=2"
        assert second == "trial 2/3: failed: it hung, best so far 1.00x: as written, as they are"
        assert third == "trial 3/3: 1.25x, best so far 1.25x: optimized, prefetch.buffer_size=4"
        assert last.startswith("1.25x (1.20-1.30) the speed of autopipe.optimize() alone, after 3 trials")
        assert "best knobs prefetch.buffer_size=4; the plan is in plan.json" in last
        assert Plan.load(project / "plan.json").knobs == {"prefetch.buffer_size": 4}
        (call,) = calls
        assert (call["consumer"].step_seconds, call["trials"], call["seconds"]) == (0.012, 3, 9.0)
        assert call["workbench"] is None

    @pytest.mark.usefixtures("calls")
    def test_no_trial_has_a_larger_number_than_there_are(self) -> None:
        """Other processes had begun some when the last one ended."""
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json", "--trials", "2")
        assert result.stdout.splitlines()[2].startswith("trial 3/3: ")

    def test_a_plan_that_cannot_be_written_after_all_is_printed(
        self, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, project: Path
    ) -> None:
        def save(self: Plan, path: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Plan, "save", save)
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json")
        assert result.exit_code == 1
        assert "plan.json could not be ([Errno 28] No space left on device)" in " ".join(result.stderr.split())
        printed = result.stdout[result.stdout.index("{") :]
        assert Plan.from_json(printed).knobs == {"prefetch.buffer_size": 4}

    def test_the_plan_is_where_it_was_asked_for_though_what_is_loaded_goes_elsewhere(
        self, calls: list[dict[str, Any]], project: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        own = (project / "train.py").read_text()
        (project / "goes.py").write_text(f"import os\nos.chdir({str(elsewhere)!r})\n{own}")
        result = autopipe("tune", "goes.py:make_dataset", "-o", "plan.json")
        assert (result.exit_code, Path.cwd()) == (0, elsewhere)
        assert (project / "plan.json").exists()
        assert not (elsewhere / "plan.json").exists()

    @pytest.mark.usefixtures("calls")
    def test_the_model_and_the_space_are_found_though_what_is_loaded_goes_elsewhere(
        self, project: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        own = (project / "train.py").read_text()
        (project / "goes.py").write_text(f"import os\nos.chdir({str(elsewhere)!r})\n{own}")
        (project / "space.toml").write_text('[[knob]]\nmatch = "prefetch.buffer_size"\nvalues = [1, 4]')
        files = ("--model", "train.py:make_model", "--space", "space.toml")
        assert autopipe("tune", "goes.py:make_dataset", "-o", "plan.json", *files).exit_code == 0

    def test_a_terminal_is_shown_the_names_of_stages_whole(self) -> None:
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=True, width=200)
        with _progress(console, 1, 9.0) as move_bar:
            move_bar(Trial(1, {"map[load].num_parallel_calls": 2}, 0.1, 0.0, True, 0.1, structure="optimized"))
        assert "map[load].num_parallel_calls=2" in shown.getvalue()

    def test_the_trials_of_a_search_in_memory_that_is_interrupted_are_gone(
        self, monkeypatch: pytest.MonkeyPatch, project: Path
    ) -> None:
        def tune_choices(*given: Any, **options: Any) -> Plan:
            raise KeyboardInterrupt

        monkeypatch.setattr(offline, "tune_choices", tune_choices)
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json")
        assert result.exit_code != 0
        words = "Its trials are gone, since they were in memory: with --storage sqlite:///study.db they are kept."
        assert f"The search was interrupted, and no plan is written. {words}" in result.stderr
        assert not (project / "plan.json").exists()

    def test_the_model_is_the_users(self, calls: list[dict[str, Any]]) -> None:
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json", "--model", "train.py:make_model")
        assert result.exit_code == 0
        assert calls[0]["consumer"].model.compiled

    def test_keeps_is_passed_on_to_every_structure(self, calls: list[dict[str, Any]]) -> None:
        autopipe("tune", "train.py:make_dataset", "-o", "plan.json", "--keeps", "sequence")
        assert {each.plan.keeps for each in calls[0]["choices"].datasets.values()} == {"sequence"}

    def test_numbers_only_leaves_the_structure_as_it_is(self, calls: list[dict[str, Any]]) -> None:
        autopipe("tune", "train.py:make_dataset", "-o", "plan.json", "--numbers-only", "--minutes", "2")
        assert list(calls[0]["choices"].datasets) == ["optimized"]
        assert calls[0]["seconds"] == 120.0

    def test_the_study_is_kept_and_named_as_asked(self, calls: list[dict[str, Any]], project: Path) -> None:
        arguments = ("--storage", "sqlite:///study.db", "--study", "mine", "--sampler", "random", "--isolate", "30")
        assert autopipe("tune", "train.py:make_dataset", "-o", "plan.json", *arguments).exit_code == 0
        assert (project / "study.db").exists()
        assert calls[0]["study"].study_name == "mine"
        assert calls[0]["workbench"].timeout == 30.0

    def test_isolated_trials_have_the_model_and_the_gpus_to_themselves(
        self, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[Any] = []
        monkeypatch.setattr(tf.config, "set_visible_devices", lambda *given: done.append(given))
        monkeypatch.setattr(
            cli_tune, "load_dataset", lambda *given: done.append("dataset made") or load_dataset(*given)
        )
        isolated = (
            "tune",
            "train.py:make_dataset",
            "-o",
            "plan.json",
            "--model",
            "train.py:make_model",
            "--isolate",
            "9",
        )
        assert autopipe(*isolated).exit_code == 0
        assert calls[0]["consumer"] is None
        assert done == [([], "GPU"), "dataset made"]
        assert calls[0]["workbench"].job.make_consumer().model.compiled

    def test_nobody_waits_for_a_trial_for_ever(self) -> None:
        done = autopipe("tune", "train.py:make_dataset", "-o", "plan.json", "--isolate", "inf")
        assert done.exit_code == 2
        assert "--isolate" in done.output

    def test_a_model_that_is_not_there_is_told_before_any_isolated_trial(self, calls: list[dict[str, Any]]) -> None:
        named = ("tune", "train.py:make_dataset", "-o", "plan.json", "--model", "train.py:no_model", "--isolate", "9")
        result = autopipe(*named)
        assert result.exit_code == 1
        assert "no_model" in result.stderr
        assert not calls

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--storage", "nowhere://x"), "A storage must be one that Optuna can open"),
            (("--space", "huge"), "A search space must be one of default, low_memory"),
            (("--sampler", "best"), "sampler must be one of tpe, random, but got 'best'"),
        ],
    )
    def test_what_optuna_cannot_do_is_refused_in_a_sentence(
        self, calls: list[dict[str, Any]], arguments: tuple[str, ...], words: str
    ) -> None:
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json", *arguments)
        assert result.exit_code == 1
        assert words in " ".join(result.stderr.split())
        assert "Traceback" not in result.stderr
        assert not calls

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("-o", "no/such/folder/plan.json"),
            ("-o", "plan.json", "--trials", "0"),
            ("-o", "plan.json", "--seed", "-1"),
            ("-o", "plan.json", "--seed", str(2**32)),
            ("-o", "plan.json", "--step-ms", "3", "--model", "train.py:make_model"),
            ("-o", "plan.json", "--step-ms", "inf"),
        ],
    )
    def test_a_wrong_command_line_ends_with_2(self, calls: list[dict[str, Any]], arguments: tuple[str, ...]) -> None:
        assert autopipe("tune", "train.py:make_dataset", *arguments).exit_code == 2
        assert not calls

    @pytest.mark.filterwarnings("default::autopipe.telemetry.TelemetryWarning")
    def test_a_real_search_gives_a_plan_for_this_pipeline(self, project: Path) -> None:
        result = autopipe(
            "tune", "train.py:make_dataset", "-o", "plan.json", "--trials", "1", "--seconds", "1", "--step-ms", "5"
        )
        assert result.exit_code == 0, result.output
        plan = Plan.load(project / "plan.json")
        account = json.loads(autopipe("explain", "train.py:make_dataset", "--json").stdout)
        assert set(plan.knobs) >= set(account["knobs"])
        assert plan.fingerprint

    @pytest.mark.filterwarnings("default::autopipe.telemetry.TelemetryWarning")
    def test_what_the_pipeline_raises_is_the_users_own(self, project: Path) -> None:
        result = autopipe("tune", "train.py:raises_late", "-o", "plan.json", "--seconds", "5")
        assert result.exit_code == 3
        assert "too big" in result.stderr
        assert "raised by your own code, in train.py:raises_late" in result.stderr
        assert not (project / "plan.json").exists()


def test_demo_refuses_a_folder_that_is_not_there() -> None:
    result = autopipe("demo", "--images", "no/such/folder")
    assert result.exit_code == 1
    assert "there is no folder 'no/such/folder'" in result.stderr
    assert "Traceback" not in result.stderr
