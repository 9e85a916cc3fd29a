"""Questions that have the same answer are asked once."""

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import measure
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.questions import asked
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(40)


def times(factor):
    return lambda x: x * factor


def in_python(function):
    return lambda x: tf.ensure_shape(tf.numpy_function(function, [x], tf.int64), [])


def by_table(rows):
    table = tf.constant(np.arange(rows))
    return lambda x: tf.gather(table, x)


def alike(one, other):
    questions = [asked(tree, tree, tree.input) for tree in map(extract, (one, other))]
    return questions[0].alike == questions[1].alike


def test_stages_that_compute_the_same_are_alike_wherever_their_elements_come_from():
    assert alike(NUMBERS.map(times(2)), NUMBERS.map(times(2)))
    assert alike(NUMBERS.map(times(2)), Dataset.range(7).shuffle(3).map(times(2)))
    assert not alike(NUMBERS.map(times(2)), NUMBERS.map(times(3)))
    assert not alike(NUMBERS.map(times(2)), NUMBERS.batch(2).map(times(2)))


@pytest.mark.parametrize(
    "other",
    [
        NUMBERS.map(times(2), num_parallel_calls=2),
        NUMBERS.map(times(2), num_parallel_calls=2, deterministic=False),
        NUMBERS.map(times(2), synchronous=True),
    ],
)
def test_other_arguments_make_another_question(other):
    assert not alike(NUMBERS.map(times(2)), other)


def test_python_code_is_like_no_other_and_like_itself():
    assert not alike(NUMBERS.map(in_python(abs)), NUMBERS.map(in_python(abs)))
    once = NUMBERS.map(in_python(abs))
    assert alike(once, once)


def test_captured_arrays_of_other_sizes_make_other_work():
    assert alike(NUMBERS.map(by_table(50)), NUMBERS.map(by_table(50)))
    assert not alike(NUMBERS.map(by_table(50)), NUMBERS.map(by_table(5000)))


def test_pipelines_with_sources_of_their_own_go_by_these():
    trees = [extract(Dataset.from_tensor_slices(np.arange(rows)).map(times(2))) for rows in (9, 9000)]
    ours, theirs = (asked(tree, tree, None).alike for tree in trees)
    assert ours != theirs
    assert ours == asked(trees[0], trees[0], None).alike


def test_branches_that_are_written_alike_are_timed_once_and_get_the_same_plan(monkeypatch):
    timed = []
    monkeypatch.setattr(measure, "compare_speeds", lambda *sides, **_: timed.append(sides) or (2.0, 1.5, 2.5))
    view = lambda: NUMBERS.map(lambda x: tf.random.uniform((64, 64)) + tf.cast(x, tf.float32)).batch(4)  # noqa: E731
    rules = [each.name for each in autopipe.rules.catalogue() if each.name.startswith("parallel")]
    done = autopipe.optimize(Dataset.zip((view(), view())), rules=rules).explain().rewriting
    applied = [step.rule for step in done.steps]
    assert applied
    assert all(applied.count(rule) == 2 for rule in applied)
    whole = sum(1 for sides in timed if len(sides) > 3)
    assert len(timed) - whole == len(set(applied) - {"parallel_map"})


def test_what_could_not_be_timed_is_asked_again():
    measurements = SampleMeasurements(seconds=0)
    tree = extract(NUMBERS.map(times(2)))
    for _ in range(2):
        with pytest.raises(MeasurementError, match="seconds=0"):
            measurements.speed(tree, tree, tree.input)
