"""What nobody notices may be done ahead or later; what others would notice may not."""

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.pipeline.shared_caches import leave_shared_caches
from autopipe.pipeline.text import one_line
from autopipe.runtime.unobserved import derived_from, may_end_aside, may_start_early

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(9)


def python_code(x):
    return tf.ensure_shape(tf.numpy_function(lambda value: value, [x], tf.int64), [])


@pytest.mark.parametrize(
    ("dataset", "aside"),
    [
        (NUMBERS.shuffle(3, seed=1).cache().batch(2), True),
        (NUMBERS.map(python_code), False),
        (NUMBERS.cache("/no/such/folder/file").batch(2), False),
    ],
    ids=["computes", "Python code", "file"],
)
def test_what_leaves_no_traces_may_end_aside(dataset, aside):
    assert may_end_aside(extract(dataset)) is aside


@pytest.mark.parametrize(
    ("dataset", "may"),
    [
        (NUMBERS.shuffle(3).batch(2), True),
        (NUMBERS.shuffle(3, seed=1).batch(2), False),
        (NUMBERS.shuffle(3).cache().batch(2), False),
        (NUMBERS.map(python_code), False),
        (NUMBERS.cache("/no/such/folder/file"), False),
    ],
    ids=["unseeded", "seeded", "drawn for all", "Python code", "file"],
)
def test_what_draws_for_nobody_else_may_start_early(dataset, may):
    assert may_start_early(leave_shared_caches(extract(dataset))) is may


@pytest.mark.parametrize(
    "reading",
    [lambda file: Dataset.from_tensors(file).map(tf.io.read_file), tf.data.TextLineDataset],
    ids=["function", "stage"],
)
def test_what_reads_files_that_may_change_may_not_start_early(tmp_path, reading):
    file = tmp_path / "lines.txt"
    file.write_text("a\n")
    tree = extract(reading(str(file)).batch(2))
    assert may_start_early(tree)
    assert not may_start_early(tree, files_may_change=True)
    assert may_start_early(extract(NUMBERS.batch(2)), files_may_change=True)


@pytest.mark.parametrize(
    ("dataset", "without_prefetch"),
    [
        (NUMBERS.shuffle(3, seed=1).repeat(2).prefetch(2), True),
        (NUMBERS.shuffle(3).cache().prefetch(2), True),
        (NUMBERS.shuffle(3).prefetch(2), False),
    ],
    ids=["seeded and repeated", "drawn for all", "drawn anew"],
)
def test_nothing_is_derived_from_a_prefetch_that_would_draw_for_nobody(dataset, without_prefetch):
    tree = leave_shared_caches(extract(dataset))
    assert one_line(derived_from(tree)).endswith("prefetch(2)") is not without_prefetch
