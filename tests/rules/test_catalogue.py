"""What holds for every rule there is; a new one needs no edit here."""

import importlib
from pathlib import Path

import pytest

from autopipe.rules import catalogue

ROOT = Path(__file__).parents[2]
RULES = pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.name)


@RULES
def test_says_its_shape_and_argues_what_it_needs(rule):
    assert "  ->  " in rule.shape
    assert "It needs:" in " ".join(rule.argument.split())


@RULES
def test_has_its_tests_and_a_case_that_shows_what_it_buys(rule):
    assert (ROOT / f"tests/rules/test_{rule.name}.py").exists()
    assert importlib.import_module(f"benchmarks.rules.{rule.name}").CASE.rule == rule.name
