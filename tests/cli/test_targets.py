import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from autopipe.cli.targets import UserCodeError, anchored, load_dataset, load_model, load_target
from autopipe.errors import TargetError
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line

pytestmark = pytest.mark.usefixtures("project")


@pytest.mark.parametrize("text", ["train.py:make_dataset", "./train.py:make_dataset", "train:make_dataset"])
def test_a_file_and_a_module_name_a_function(text: str) -> None:
    dataset = load_dataset(text, {"batch_size": 16})
    features, labels = next(iter(dataset))
    assert features.shape == (16, 1)
    assert labels.numpy().tolist() == list(range(16))


def test_a_file_elsewhere_finds_the_modules_beside_it(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert isinstance(load_dataset(f"{project}/train.py:make_dataset", {}), tf.data.Dataset)


def test_a_file_is_the_module_of_its_name_and_is_imported_once(user_file: Callable[[str], str]) -> None:
    path = user_file("import helps_own\nclass Kind: pass\ndef name():\n    return __name__, helps_own.kind() is Kind\n")
    Path(path).with_name("helps_own.py").write_text("def kind():\n    import own\n    return own.Kind\n")
    first, second = load_target(f"{path}:name"), load_target("own:name")
    assert first() == ("own", True)
    assert first is second


@pytest.mark.parametrize("name", ["random", "own.v2", "__main__"])
def test_a_file_whose_name_is_taken_or_none_of_a_module_has_a_private_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text("def name():\n    return __name__\n\ndef other():\n    return __name__\n")
    first, second = load_target(f"{path}:name"), load_target(f"{path}:other")
    assert first() == second()
    assert first() not in ("__main__", name)
    assert first.__globals__ is second.__globals__


def test_files_of_one_name_are_two_modules(user_file: Callable[[str], str]) -> None:
    path = user_file("def make():\n    return 1\n")
    other = Path(path).parent / "other" / "own.py"
    other.parent.mkdir()
    other.write_text("def make():\n    return 2\n")
    assert [load_target(f"{each}:make")() for each in (path, other, path)] == [1, 2, 1]


def test_a_script_that_parses_arguments_sees_none_of_autopipes(
    user_file: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["autopipe", "explain", "own.py:seen"])
    path = user_file("import sys\nseen_at_import = sys.argv[1:]\ndef seen():\n    return seen_at_import\n")
    assert load_target(f"{path}:seen")() == []
    assert sys.argv == ["autopipe", "explain", "own.py:seen"]


def test_a_file_with_relative_imports_is_to_be_named_as_a_module(user_file: Callable[[str], str]) -> None:
    path = user_file("from . import beside\n")
    with pytest.raises(TargetError, match=r"has relative imports\. Name its module, .* package\.own:function"):
        load_target(f"{path}:make")


def test_relative_imports_of_what_a_file_imports_are_the_users_to_mend(user_file: Callable[[str], str]) -> None:
    path = user_file("import beside_own\n")
    Path(path).with_name("beside_own.py").write_text("from . import another\n")
    with pytest.raises(UserCodeError):
        load_target(f"{path}:make")


def test_a_file_is_found_from_another_folder_once_it_is_anchored(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, module = anchored("train.py:make_dataset"), anchored("train:make_model")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load_target(file).__name__ == "make_dataset"
    assert load_target(module).__name__ == "make_model"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names of files are text")
def test_a_folder_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "own.py").write_text("def make(): return 3")
    assert load_target(f"{folder}/own.py:make")() == 3


def test_a_user_that_there_is_not_is_a_folder_that_there_is_not() -> None:
    with pytest.raises(TargetError, match="there is no file"):
        load_target("~nobody9/train.py:make_dataset")


def test_a_coroutine_is_to_be_wrapped(user_file: Callable[[str], str]) -> None:
    path = user_file("async def make():\n    return None\n")
    with pytest.raises(TargetError, match=r"is one of async def\. Write a function that runs it"):
        load_dataset(f"{path}:make", {})


def test_a_model_that_needs_arguments_is_to_be_wrapped(user_file: Callable[[str], str]) -> None:
    path = user_file("def make(depth):\n    return depth\n")
    with pytest.raises(TargetError, match="--arg is for the dataset's: write a function of the model that needs none"):
        load_model(f"{path}:make")


@pytest.mark.parametrize(
    ("function", "more"), [("optimizes", ""), ("optimizes_and_maps", " | map(<lambda>) | prefetch(2)")]
)
def test_an_optimized_dataset_is_taken_as_it_was_written(function: str, more: str) -> None:
    written, found = (extract(load_dataset(f"train.py:{name}", {})) for name in ("make_dataset", function))
    assert one_line(found) == one_line(written) + more


@pytest.mark.parametrize(
    ("text", "received", "remedy"),
    [
        ("train.py", "'train.py'", "train.py:make_dataset"),
        ("train.py:", "'train.py:'", "train.py:make_dataset"),
        ("train.py::make_dataset", "'train.py::make_dataset'", "train.py:make_dataset"),
        ("..train:make_dataset", "'..train:make_dataset'", "train.py:make_dataset"),
        (":make_dataset", "':make_dataset'", "train.py:make_dataset"),
        ("trian.py:make_dataset", "no file 'trian.py'", "Did you mean train.py?"),
        (f"{'x' * 5000}.py:make_dataset", "no file 'xxx", "Check the spelling"),
        ("nowhere/zebra.py:make_dataset", "no file 'nowhere/zebra.py'", "Check the spelling"),
        ("trian:make_dataset", "no module 'trian'", "Did you mean train.py?"),
        ("train.sub:make_dataset", "no module 'train.sub'", "write its path with .py"),
        ("train.py:make_datset", "no 'make_datset'", "Did you mean make_dataset"),
        ("train.py:xyz", "no 'xyz'", "It has broken_model and empty and "),
        ("train.py:Data.train", "got 'Data.train'", "def make_train(): return Data.train()"),
        ("train.py:dataset", "_BatchDataset", "def make_dataset(): return dataset"),
        ("train.py:needs_folder", "missing a required argument: 'folder'", "--arg name=value"),
        ("train.py:train_and_validation", "a tuple of 2", "returns the dataset given to fit()"),
        ("train.py:forgets", "None (is the return missing?)", "returns the dataset"),
        ("builtins:print", "returned None", "returns the dataset"),
        ("builtins:dict", "not", "Wrap it in one"),
    ],
)
def test_what_is_refused_and_the_remedy(text: str, received: str, remedy: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_dataset(text, {})
    message = str(caught.value)
    assert " must " in message
    assert received in message
    assert remedy in message


def test_an_argument_the_function_does_not_take_is_refused() -> None:
    with pytest.raises(TargetError, match="'batchsize'; it takes batch_size, name"):
        load_dataset("train.py:make_dataset", {"batchsize": 4})


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("import no_such_module_anywhere", ModuleNotFoundError),
        ("def broken(:", SyntaxError),
        ("import sys; sys.exit(0)", SystemExit),
        ("1 / 0", ZeroDivisionError),
        ("raise GeneratorExit", GeneratorExit),
        ("def __getattr__(name): raise ImportError(name)", ImportError),
    ],
)
def test_what_an_import_raises_is_the_users_own(
    user_file: Callable[[str], str], body: str, cause: type[BaseException]
) -> None:
    path = user_file(body)
    for _ in range(2):
        # A second attempt must not find the half-imported module of the first.
        with pytest.raises(UserCodeError) as caught:
            load_target(f"{path}:make_dataset")
        assert isinstance(caught.value.__cause__, cause)
        assert caught.value.origin == path


def test_what_a_script_prints_is_not_the_output_of_a_command(
    user_file: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = user_file("print(5)\ndef make_dataset(): pass")
    load_target(f"{path}:make_dataset")
    assert capsys.readouterr() == ("", "5\n")


def test_a_module_that_imports_a_missing_one_is_the_users_own(project: Path) -> None:
    (project / "shapes.py").write_text("import no_such_module_anywhere")
    sys.modules.pop("shapes", None)
    with pytest.raises(UserCodeError):
        load_target("train:make_dataset")


def test_a_model_must_be_compiled() -> None:
    assert load_model("train.py:make_model").compiled
    with pytest.raises(TargetError, match=r"a model that is not compiled.*model\.compile"):
        load_model("train.py:make_uncompiled")
    with pytest.raises(TargetError, match="an object of type _BatchDataset"):
        load_model("train.py:make_dataset")
