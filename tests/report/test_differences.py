"""What differs between two plans or pipelines is all that is shown, and nothing else is."""

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from autopipe import Plan
from autopipe.pipeline.extract import extract
from autopipe.report.differences import Side, differences
from autopipe.report.stages import stages_of

Dataset = tf.data.Dataset
PLAN = Plan(
    "ab12",
    rules=("a", "b"),
    knobs={"prefetch.buffer_size": 2},
    machine={"cores": 2, "available_bytes": 7},
    measured={"after": 1.5, "ratio": {"low": 1.0}},
    versions={"tensorflow": "2.21.0"},
)


def stored(**changes):
    return Side("stored", Plan(**{**PLAN.__dict__, **changes}), stored=True)


def pipeline(dataset):
    return Side("pipeline", Plan("x"), stages_of(extract(dataset)))


def printed(found):
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(found)
    return [line.rstrip() for line in capture.get().splitlines()]


def double(x):
    return x * 2


def test_equal_sides_have_no_difference():
    found = differences(stored(), stored())
    assert found.equal
    assert printed(found) == ["--- stored", "+++ stored", "no difference"]
    assert found.to_dict()["equal"] is True


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"fingerprint": "cd34"}, "fingerprint: ab12 -> cd34"),
        ({"keeps": "sequence"}, "keeps: training -> sequence"),
        ({"knobs": {"prefetch.buffer_size": 4}}, "prefetch.buffer_size: 2 -> 4"),
        ({"knobs": {}}, "prefetch.buffer_size: 2 -> none"),
        ({"measured": {"after": 1.25, "ratio": {"low": 1.0}}}, "after: 1.5 -> 1.25"),
        ({"measured": {"after": 1.50001, "ratio": {"low": 1.0}}}, "after: 1.5 -> 1.50001"),
        ({"measured": {"after": 1.5, "ratio": {"low": 2.0}}}, "ratio.low: 1 -> 2"),
        ({"machine": {"cores": 4}}, "cores: 2 -> 4"),
        ({"versions": {"tensorflow": "2.22.0"}}, "tensorflow: 2.21.0 -> 2.22.0"),
        ({"rules": ("a",)}, "- b"),
        ({"rules": ("a", "b", "c")}, "+ c"),
        ({"rules": ("b", "a")}, "the same ones, in another order or at other stages"),
        ({"rules": ("a", "a", "b")}, "+ a"),
    ],
)
def test_each_field_that_differs_is_a_line(changes, line):
    found = differences(stored(), stored(**changes))
    assert not found.equal
    assert [each.strip() for each in printed(found)[3:]] == [line]
    assert found.to_dict()["equal"] is False


def test_the_memory_that_is_free_at_the_moment_is_no_difference():
    assert differences(stored(), stored(machine={"cores": 2, "available_bytes": 9})).equal


def test_stages_that_were_added_removed_and_kept_are_told_apart():
    one = Dataset.range(9).cache().map(double).batch(2)
    two = Dataset.range(9).map(double).batch(2).prefetch(1)
    lines = printed(differences(pipeline(one), pipeline(two)))
    stages = lines[lines.index("Stages") + 1 :]
    assert [line.split("  test_")[0].strip() for line in stages] == [
        "range(0, 9)",
        "- cache()",
        "map(double)",
        "batch(2)",
        "+ prefetch(1)",
    ]


def test_branches_stand_indented():
    def zipped(n):
        return Dataset.zip((Dataset.range(9), Dataset.range(9).take(n)))

    found = differences(pipeline(zipped(3)), pipeline(zipped(4)))
    assert [(each.sign, each.stage.text) for each in found.stages if each.sign != " "] == [
        ("-", "  take(3)"),
        ("+", "  take(4)"),
    ]


def test_two_functions_of_one_name_are_told_apart_and_one_that_moved_is_not():
    def over(function):
        function.__name__ = "same"
        return Dataset.range(9).map(function)

    found = differences(pipeline(over(lambda x: x + 1)), pipeline(over(lambda x: x + 2)))
    lines = [line.split("  test_")[0].strip() for line in printed(found) if "map" in line]
    assert len(lines) == 2
    assert all(" #" in line for line in lines)
    moved = differences(pipeline(Dataset.range(9).take(3).skip(1)), pipeline(Dataset.range(9).skip(1).take(3)))
    assert not any("#" in line for line in printed(moved))


def test_arrays_of_another_type_are_another_source():
    one, two = (pipeline(Dataset.from_tensor_slices(np.zeros((3, 2), kind))) for kind in ("uint8", "float32"))
    assert not differences(one, two).equal
    assert differences(one, pipeline(Dataset.from_tensor_slices(np.ones((5, 2), "uint8")))).equal


@pytest.mark.parametrize(("places", "equal"), [((3, 1), True), ((3, 2), False), ((), True)])
def test_rules_at_other_stages_differ_where_both_plans_tell_of_these(places, equal):
    found = differences(stored(places=(3, 1)), stored(places=places))
    assert found.equal == equal
    assert found.order == (not equal)
