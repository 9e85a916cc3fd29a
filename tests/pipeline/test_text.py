"""A pipeline as text."""

from tensorflow.data import Dataset

from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import tree_lines


def test_branches_are_numbered_and_stand_deeper_than_what_follows_them():
    both = Dataset.zip(Dataset.range(3).concatenate(Dataset.range(4)), Dataset.range(5).take(2)).batch(2)

    assert tree_lines(extract(both)) == [
        "branch 1",
        "  branch 1",
        "    range(0, 3)",
        "  branch 2",
        "    range(0, 4)",
        "  concatenate()",
        "branch 2",
        "  range(0, 5)",
        "  take(2)",
        "zip()",
        "batch(2)",
    ]


def test_many_branches_in_a_row_that_look_alike_are_shown_once():
    two, three = [[Dataset.range(3).batch(2)] * count for count in (2, 3)]
    parts = [*three, Dataset.range(9), *two]
    assert tree_lines(extract(Dataset.zip(tuple(parts)))) == [
        "branches 1 to 3, alike",
        "  range(0, 3)",
        "  batch(2)",
        "branch 4",
        "  range(0, 9)",
        "branches 5 to 6, alike",
        "  range(0, 3)",
        "  batch(2)",
        "zip()",
    ]
    assert tree_lines(extract(Dataset.zip(tuple(two))))[0] == "branch 1"


def test_choices_are_shown_beside_branches_that_look_alike():
    chosen = Dataset.choose_from_datasets([Dataset.range(3)] * 4, Dataset.range(4))
    choices, _, *branches = tree_lines(extract(chosen))
    assert (choices, *branches[:2]) == ("choices", "branches 1 to 4, alike", "  range(0, 3)")
    assert len(branches) == 3


def test_a_number_that_is_nought_is_told():
    assert tree_lines(extract(Dataset.range(9).shuffle(9, seed=0))) == ["range(0, 9)", "shuffle(9, seed=0)"]
