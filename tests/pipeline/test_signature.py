"""Type and number of elements are those of the built pipeline, and nothing is kept of pipelines that are gone."""

import gc
import weakref

import pytest
import tensorflow as tf

from autopipe.pipeline import signature as module
from autopipe.pipeline import trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import Signature, signature

Dataset = tf.data.Dataset
RANGE = Dataset.range(10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RANGE,
        lambda: RANGE.map(lambda x: {"a": x, "b": tf.ragged.range(x)}).batch(4, drop_remainder=True),
        lambda: Dataset.zip(RANGE.shuffle(4, seed=1).repeat(), RANGE.cache().filter(lambda x: x > 3)),
        lambda: RANGE.window(3).flat_map(lambda each: each.batch(3)).concatenate(RANGE.batch(3)),
    ],
)
def test_they_are_those_of_the_pipeline(make):
    tree = extract(make())
    built = build(tree)
    assert signature(tree) == Signature(built.element_spec, int(built.cardinality()))


def test_asking_does_not_make_a_pipeline_draw_other_numbers():
    asked, alone = (extract(RANGE.shuffle(10, seed=3)) for _ in range(2))
    signature(asked)
    assert [list(build(tree).as_numpy_iterator()) for tree in (asked, alone)] == [
        [*build(alone).as_numpy_iterator()]
    ] * 2


def test_nothing_is_kept_of_a_pipeline_that_is_gone():
    tree = extract(RANGE.map(lambda x: x + 1).cache().batch(2))
    signature(tree)
    kept = [weakref.ref(node) for node in trees.walk(tree) if node in module._UNREAD]
    assert kept
    del tree
    gc.collect()
    assert not any(node() for node in kept)


def test_what_was_unknown_may_become_known_and_no_more():
    known = signature(extract(RANGE.batch(5, drop_remainder=True)))
    unknown = Signature(tf.TensorSpec([None], tf.int64), tf.data.UNKNOWN_CARDINALITY)
    assert known.refines(unknown)
    assert not unknown.refines(known)
    assert not known.refines(Signature(tf.TensorSpec([None], tf.int32), 2))
    assert not known.refines(Signature((tf.TensorSpec([None], tf.int64),), 2))
    assert not known.refines(Signature(known.element_spec, 3))
