import pytest
import typer

from autopipe.cli._options import Pruner, Sampler, parse_arguments
from autopipe.tuning.studies import PRUNERS, SAMPLERS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=4", 4),
        ("x={'a': [1, 2.5]}", {"a": [1, 2.5]}),
        ("x=", ""),
        ("x=some text", "some text"),
        ("x=f(1)", "f(1)"),
        ("x={[1]: 2}", "{[1]: 2}"),
        ("x={{}}", "{{}}"),
        ("x=a=b", "a=b"),
    ],
)
def test_a_value_that_is_no_literal_is_text(text: str, value: object) -> None:
    assert parse_arguments([text]) == {"x": value}


@pytest.mark.parametrize("value", ["(" * 5000, "-" * 100_000 + "1", "1" + "+1" * 50_000], ids=["open", "signs", "sum"])
def test_a_value_that_is_nested_too_deep_for_a_literal_is_text(value: str) -> None:
    assert parse_arguments([f"x={value}"]) == {"x": value}


@pytest.mark.parametrize("text", ["x", "=1", "a b=1", "1=1"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be NAME=VALUE, but got"):
        parse_arguments([text])


def test_an_argument_that_is_given_twice_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="each argument once, but got x twice"):
        parse_arguments(["x=1", "y=1", "x=2"])


def test_samplers_and_pruners_are_those_that_a_study_takes() -> None:
    assert (tuple(Sampler), tuple(Pruner)) == (SAMPLERS, PRUNERS)
