"""Who notices that a pipeline runs, and who that it ran once more."""

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.pipeline.visibility import who_has_side_effects, who_would_see

Dataset = tf.data.Dataset
NUMBER = tf.Variable(1, dtype=tf.int64)
GENERATOR = tf.random.Generator.from_seed(1)


def counted(x):
    return tf.py_function(lambda y: y, [x], tf.int64)


PIPELINES = {
    "arithmetic": (Dataset.range(3).map(lambda x: x + 1), None, None),
    "a variable": (Dataset.range(3).map(lambda x: x + NUMBER), "reads a variable", None),
    "a generator": (Dataset.range(3).map(lambda x: x + GENERATOR.uniform((), dtype=tf.int64, maxval=2)), "draws", None),
    "Python": (Dataset.range(3).map(counted).batch(2), "counted runs Python code", "counted runs Python code"),
    "what nobody sees into": (Dataset.range(3).unique(), "cannot see inside", "cannot see inside"),
    "an order drawn for good": (Dataset.range(3).shuffle(3, reshuffle_each_iteration=False), None, None),
    "an order drawn for good, of what nobody sees into": (
        Dataset.range(3).unique().shuffle(3, reshuffle_each_iteration=False),
        "cannot see inside UniqueDataset",
        "cannot see inside UniqueDataset",
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_who_sees_it_and_who_is_changed(name):
    dataset, seen, changed = PIPELINES[name]
    for found, expected in ((who_would_see(extract(dataset)), seen), (who_has_side_effects(extract(dataset)), changed)):
        assert found is None if expected is None else expected in found


def test_a_generator_is_no_matter_where_draws_do_not_count():
    assert who_would_see(extract(PIPELINES["a generator"][0]), draws_count=False) is None
