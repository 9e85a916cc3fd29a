"""The commands ``source`` and ``spaces``."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner, Result

import autopipe as package
from autopipe import Plan
from autopipe.cli.main import app
from autopipe.cli.targets import load_dataset
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.search_spaces import SPACES

pytestmark = pytest.mark.usefixtures("project")


def autopipe(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)


def stored_plan(target: str, *rules: str) -> None:
    Plan(fingerprint(extract(load_dataset(target, {}))), rules=rules).save("plan.json")


class TestSource:
    def test_the_printed_module_makes_what_the_optimized_pipeline_does(self, project: Path) -> None:
        stored_plan("train.py:make_dataset", "cache_after_map", "prefetch_at_end")
        result = autopipe("source", "train.py:make_dataset", "--plan", "plan.json")
        assert result.exit_code == 0, result.output
        assert "from shapes import column\n" in result.stdout
        assert "# train.py:8\n" in result.stdout
        (project / "shown.py").write_text(result.stdout)
        import shown  # type: ignore[import-not-found]

        del sys.modules["shown"]
        expected = package.optimize(load_dataset("train.py:make_dataset", {}), plan="plan.json")
        pairs = zip(shown.make_dataset().as_numpy_iterator(), expected.as_numpy_iterator(), strict=True)
        for left, right in pairs:
            tf.nest.map_structure(np.testing.assert_array_equal, left, right)

    def test_functions_of_the_script_itself_are_imported_by_the_name_of_the_file(self, project: Path) -> None:
        (project / "own.py").write_text(
            "import tensorflow as tf\n\ndef plus(x):\n    return x + 1\n\n"
            "def make():\n    return tf.data.Dataset.range(5).map(plus)\n"
        )
        result = autopipe("source", "own.py:make", "--seconds", "0")
        assert result.exit_code == 0
        assert "from own import plus\n" in result.stdout

    def test_arrays_and_lambdas_are_arguments_that_say_where_they_are_from(self) -> None:
        stored_plan("train.py:from_arrays")
        result = autopipe("source", "train.py:from_arrays", "--plan", "plan.json")
        assert result.exit_code == 0
        assert "def make_dataset(data, lambda_train_" in result.stdout
        assert "16 rows of (uint8[4, 4, 3], int32[])" in result.stdout
        assert "the lambda of train.py:" in result.stdout

    @pytest.mark.parametrize(("partial", "exit_code"), [((), 1), (("--partial",), 0)])
    def test_what_cannot_be_written_ends_with_1_after_the_rest(self, partial: tuple[str, ...], exit_code: int) -> None:
        stored_plan("train.py:make_dataset", "vectorize_map")
        result = autopipe("source", "train.py:make_dataset", "--plan", "plan.json", *partial)
        assert result.exit_code == exit_code
        assert result.stdout.rstrip().endswith("return dataset")
        assert '# Not written: the function "vectorized column" of shapes.py:5' in result.stdout
        assert result.stderr.startswith('Not written: the function "vectorized column"')
        compile(result.stdout, "shown.py", "exec")

    def test_without_a_plan_it_is_what_optimize_would_do(self) -> None:
        result = autopipe("source", "train.py:make_dataset", "--seconds", "0", "--keeps", "sequence")
        assert result.exit_code == 0
        assert "dataset.prefetch(tf.data.AUTOTUNE)" in result.stdout


class TestSpaces:
    def test_lists_each_space_with_what_it_is_for(self) -> None:
        result = autopipe("spaces")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert [line.split("  ")[0] for line in lines] == list(SPACES)
        assert all(len(line.split("  ")[1]) > 20 for line in lines)

    def test_shows_what_each_would_try_for_a_pipeline(self) -> None:
        result = autopipe("spaces", "train.py:make_dataset", "--seconds", "0")
        assert result.exit_code == 0
        assert result.stdout.count("prefetch.buffer_size: ") == len(SPACES)

    def test_its_help_has_no_two_pairs_of_brackets_around_what_may_be_left_out(self) -> None:
        said = autopipe("spaces", "--help").stdout
        assert "TARGET" in said
        assert "[[" not in said

    @pytest.mark.parametrize("option", [("--keeps", "sequence"), ("--seconds", "1"), ("--arg", "x=1")])
    def test_what_is_of_a_pipeline_needs_one(self, option: tuple[str, str]) -> None:
        result = autopipe("spaces", *option)
        assert result.exit_code == 2
        assert "are of a pipeline" in result.stderr

    def test_json_is_for_programs(self) -> None:
        told = json.loads(autopipe("spaces", "train.py:make_dataset", "--seconds", "0", "--json").stdout)
        assert list(told) == list(SPACES)
        assert told["low_memory"]["tries"]["prefetch.buffer_size"] == [1, 2]
        assert "tries" not in json.loads(autopipe("spaces", "--json").stdout)["default"]
