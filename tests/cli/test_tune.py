"""``autopipe tune``."""

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from command_line import autopipe
from rich.console import Console

from autopipe import Plan
from autopipe.cli import tune as cli_tune
from autopipe.cli.targets import load_dataset
from autopipe.cli.tune import _progress
from autopipe.rules import catalogue
from autopipe.tuning.offline import tuning
from autopipe.tuning.search.trial import Trial


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

        monkeypatch.setattr(tuning, "tune_choices", tune_choices)
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
        assert "knobs prefetch.buffer_size=4; the plan is in plan.json" in last
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

        monkeypatch.setattr(tuning, "tune_choices", tune_choices)
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

    @pytest.mark.usefixtures("calls")
    def test_isolated_trials_leave_no_file_of_the_users_locked(self) -> None:
        kept = autopipe("tune", "train.py:kept_in_file", "-o", "plan.json", "--isolate", "30")
        assert kept.exit_code == 1
        assert "each cache(filename) of a pipeline must be written before" in " ".join(kept.output.split())
        assert autopipe("tune", "train.py:kept_and_unread", "-o", "plan.json", "--isolate", "30").exit_code == 0

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
            (("--sampler", "best"), "'best' is not one of 'tpe', 'random'"),
            (("--pruner", "hyperband"), "'hyperband' is not one of 'median', 'none'"),
        ],
    )
    def test_what_optuna_cannot_do_is_refused_in_a_sentence(
        self, calls: list[dict[str, Any]], arguments: tuple[str, ...], words: str
    ) -> None:
        result = autopipe("tune", "train.py:make_dataset", "-o", "plan.json", *arguments)
        assert result.exit_code == (1 if "--storage" in arguments else 2)
        assert words in " ".join(result.stderr.replace("│", " ").split())
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

    def test_a_folder_that_is_not_there_is_said_to_be_none(self) -> None:
        result = autopipe("tune", "train.py:make_dataset", "-o", "no/such/plan.json")
        assert result.exit_code == 2
        assert "there is no 'no/such'" in " ".join(result.stderr.replace("│", " ").split())

    def test_a_real_search_gives_a_plan_for_this_pipeline(self, project: Path) -> None:
        result = autopipe(
            "tune", "train.py:make_dataset", "-o", "plan.json", "--trials", "1", "--seconds", "1", "--step-ms", "5"
        )
        assert result.exit_code == 0, result.output
        plan = Plan.load(project / "plan.json")
        account = json.loads(autopipe("explain", "train.py:make_dataset", "--seconds", "0", "--json").stdout)
        assert set(plan.knobs) >= set(account["knobs"])
        assert plan.fingerprint

    def test_what_the_pipeline_raises_is_the_users_own(self, project: Path) -> None:
        result = autopipe("tune", "train.py:raises_late", "-o", "plan.json", "--seconds", "5")
        assert result.exit_code == 3
        assert "too big" in result.stderr
        assert "raised by your own code, in train.py:raises_late" in result.stderr
        assert not (project / "plan.json").exists()
