"""The package as a whole: light to import, layered, complete in the wheel, its examples true."""

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import autopipe
from autopipe.rules import catalogue

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def modules():
    names = []
    for package in SETUPTOOLS["packages"]:
        path = importlib.import_module(package).__path__
        names += [package, *(f"{package}.{each.name}" for each in pkgutil.iter_modules(path) if not each.ispkg)]
    return sorted(set(names))


@pytest.mark.parametrize("name", modules())
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")
@pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning")
@pytest.mark.filterwarnings("ignore:AutoGraph could not transform")
def test_the_examples_in_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_the_oldest_versions_that_are_tested_are_those_that_may_be_installed():
    tested = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    assert {each.replace(">=", "==") for each in PROJECT["project"]["dependencies"]} <= set(tested)


def test_importing_autopipe_does_not_import_tensorflow():
    heavy = "('tensorflow', 'keras', 'optuna')"
    light = "autopipe.cli.main, autopipe.planning.plans.plan, autopipe.report.differences, autopipe.search_spaces"
    code = f"import sys, autopipe.telemetry, {light}; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_is_there_and_sorted():
    assert list(autopipe.__all__) == sorted(autopipe.__all__)
    for name in autopipe.__all__:
        assert getattr(autopipe, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = autopipe.nothing


def test_every_module_says_what_others_may_import():
    """Except packages, scripts, and rules: each of those is named as its file."""
    found = {name: importlib.import_module(name) for name in modules()}
    rules = {rule.match.__module__ for rule in catalogue()}
    scripts = {"autopipe.__main__", "autopipe.examples._quiet"}
    silent = {
        name for name, module in found.items() if not hasattr(module, "__all__") and not hasattr(module, "__path__")
    }
    assert silent == rules | scripts


def imported_modules(path, module):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("autopipe"):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("autopipe"))


def test_imports_point_one_way():
    known = set(modules())
    graph = {}
    for name in known:
        file = importlib.import_module(name).__file__
        found = {each for each in imported_modules(Path(file), name) if each in known and each != name}
        # A package's __init__ re-exports its own modules, and the top one imports lazily.
        graph[name] = set() if name == "autopipe" else {each for each in found if each != "autopipe"}
    TopologicalSorter(graph).prepare()
    packages = defaultdict(set)
    for name, imported in graph.items():
        packages[package(name)] |= {package(each) for each in imported} - {package(name)}
    TopologicalSorter(packages).prepare()


def package(name):
    """Return the package within autopipe, or the module beside those."""
    return name.split(".")[1] if "." in name else name


def test_each_line_of_a_docstrings_arguments_begins_one_or_is_indented_below_it():
    entries = [(name, line) for name in modules() for docstring in docstrings(name) for line in entry_lines(docstring)]
    assert len(entries) > 1_000
    assert [(name, line) for name, line in entries if not re.match(r" |[\w*., ]+:", line)] == []


def docstrings(name):
    source = Path(importlib.import_module(name).__file__).read_text()
    documented = (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.ClassDef | ast.FunctionDef))
    return [ast.get_docstring(each) or "" for each in documented]


def entry_lines(docstring):
    sections = re.findall(r"^(?:Args|Attributes|Raises):\n((?: +.*\n?)+)", docstring, re.MULTILINE)
    return [line for section in sections for line in textwrap.dedent(section).splitlines()]


def test_every_mapped_folder_is_in_the_package_list():
    folders = {"autopipe": ROOT / "autopipe"} | {
        package: ROOT / folder for package, folder in SETUPTOOLS["package-dir"].items()
    }
    found = set(folders)
    for path in (ROOT / "autopipe").rglob("__init__.py"):
        found.add(".".join(path.parent.relative_to(ROOT).parts))
    assert set(SETUPTOOLS["packages"]) == found


def test_a_wheel_holds_every_source_file(tmp_path):
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    build = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    expected = set()
    for package in SETUPTOOLS["packages"]:
        folder = ROOT / SETUPTOOLS["package-dir"].get(package, package.replace(".", "/"))
        expected |= {f"{package.replace('.', '/')}/{path.name}" for path in folder.glob("*.py")}
    assert packed == expected
