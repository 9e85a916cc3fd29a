import json
from pathlib import Path
from typing import Any

import pytest
from command_line import autopipe

from autopipe.cli.explain import LEAST_SECONDS
from autopipe.planning.costs import profiling
from autopipe.rules import catalogue
from benchmarks import planted


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

    def test_what_autopipe_would_do_is_not_measured_where_nobody_asks(self) -> None:
        said = autopipe("explain", "train.py:make_dataset", "--seconds", "0", "--measure", "0").stdout
        assert "optimize(seconds=0) leaves no time for that" in " ".join(said.split())

    def test_the_traceback_of_the_users_code_shows_only_that(self) -> None:
        traceback = autopipe("explain", "train.py:raises").stderr
        assert 'return make_dataset()["no such [key]"]' in traceback
        assert "TypeError" in traceback
        assert "targets.py" not in traceback

    @pytest.mark.parametrize("target", ["own.py:make", "own:make"])
    def test_the_traceback_of_an_import_shows_only_the_users_file(self, project: Path, target: str) -> None:
        (project / "own.py").write_text("1 / 0\n")
        lines = autopipe("explain", target).stderr.splitlines()
        assert [line.split(",")[0] for line in lines if "File " in line] == [f'  File "{project / "own.py"}"']

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("train.py:make_dataset", "--arg", "batch_size"),
            ("train.py:make_dataset", "--arg", "batch size=4"),
            ("train.py:make_dataset", "--keeps", "everything"),
            ("train.py:make_dataset", "--measure", "-1"),
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
    @pytest.mark.one_in(2)
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

    @pytest.mark.parametrize("seconds", ["-1", "0.01", "0.19", "soon", "nan"])
    def test_seconds_have_a_law(self, seconds: str) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--seconds", seconds)
        assert result.exit_code == 2
        assert "Invalid value for '--seconds'" in result.stderr

    def test_the_fewest_seconds_are_those_that_profiling_takes(self) -> None:
        assert LEAST_SECONDS == profiling.LEAST_SECONDS

    @pytest.mark.parametrize("consumer", [("--step-ms", "3"), ("--model", "train.py:make_model")])
    def test_no_seconds_are_none_for_a_consumer_either(self, consumer: tuple[str, str]) -> None:
        result = autopipe("explain", "train.py:make_dataset", "--seconds", "0", *consumer)
        assert result.exit_code == 2
        assert "must be above 0" in result.stderr

    def test_elements_that_fail_now_and_then_are_no_obstacle(self) -> None:
        account = explained("train.py:raises_late", "--seconds", "0.4")
        assert account["profile"]["elements_per_second"] > 0

    @pytest.mark.parametrize(("damaged", "why"), [(True, "corrupted record"), (False, "No such file")])
    def test_files_of_which_nothing_can_be_read_are_refused_and_not_code_that_raised(
        self, project: Path, damaged: bool, why: str
    ) -> None:
        if damaged:
            (project / "damaged.tfrecord").write_bytes(b"no record at all" * 99)
        result = autopipe("explain", "train.py:reads", "--seconds", "0.4")
        assert result.exit_code == 1
        assert result.stderr.count("error: ") == 1
        assert why in result.stderr
        assert "Traceback" not in result.stderr
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

    @pytest.mark.parametrize("options", [(), ("--verbose",)])
    def test_no_line_ends_in_blanks(self, options: tuple[str, ...]) -> None:
        lines = autopipe("rules", *options).stdout.splitlines()
        assert lines == [line.rstrip() for line in lines]

    def test_verbose_gives_the_arguments(self) -> None:
        said = " ".join(autopipe("rules", "--verbose").stdout.split())
        for rule in catalogue():
            assert " ".join(rule.argument.split()) in said

    def test_markdown_says_of_every_obligation_what_it_means(self) -> None:
        said = autopipe("rules", "--markdown").stdout.splitlines()
        meanings = [line for line in said if line.startswith("- `")]
        named = {name for rule in catalogue() for name in rule.obligations}
        assert [line.split("`")[1] for line in meanings] == sorted(named)
        assert all(line.partition(": ")[2].endswith(".") for line in meanings)
        assert "- `InMemory`: The cache holds elements in memory." in meanings

    def test_a_table_of_markdown_is_not_verbose(self) -> None:
        assert autopipe("rules", "--markdown", "--verbose").exit_code == 2


def test_demo_refuses_a_folder_that_is_not_there() -> None:
    result = autopipe("demo", "--images", "no/such/folder")
    assert result.exit_code == 1
    assert "there is no folder 'no/such/folder'" in result.stderr
    assert "Traceback" not in result.stderr
