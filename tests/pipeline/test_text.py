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
