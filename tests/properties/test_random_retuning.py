"""Retuned after every element, pipelines that nobody wrote for it give the sequence they gave.

``make test-deep`` tries hundreds; the usual run tries some.
"""

from itertools import islice

import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pipelines import recipes
from retuning import flat, read_retuning, setting

import autopipe
from autopipe.errors import DatasetError
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.repeatable import draws_freely, draws_race, order_is_free
from autopipe.pipeline.seeds import is_reseeded
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps, catalogue
from autopipe.runtime.dataset import OptimizedDataset
from sides import AlwaysFaster

# Of endless ones; each setting comes up several times.
MOST = 20


def reproducible(tree):
    """Whether two datasets of this pipeline give the same sequence, and nobody sees that one is read.

    A shuffle that has drawn its one order when it was made may have drawn another one than the next.
    """
    drawn = any(isinstance(node, ir.Opaque) and node.label == "ShuffleDataset" for node in trees.walk(tree))
    free = drawn or draws_freely(tree) or draws_race(tree) or order_is_free(tree)
    return not free and who_would_see(tree) is None


def epochs_of(tree):
    """One, of what has no end; else two."""
    return 1 if any(isinstance(node, ir.Repeat) and node.count < 0 for node in trees.walk(tree)) else 2


@settings(max_examples=settings().max_examples // 4)
@given(recipe=recipes())
def test_retuning_after_every_element_keeps_the_sequence_of_any_pipeline(recipe):
    try:
        tree = extract(recipe())
        assume(reproducible(tree))
        original, dataset = recipe(), autopipe.optimize(recipe(), rules=(), seconds=0)
        expected = [flat(islice(original, MOST)) for _epoch in range(epochs_of(tree))]
    except (ValueError, TypeError, DatasetError, tf.errors.OpError):
        assume(False)
    assert [flat(read_retuning(dataset, MOST)) for _epoch in expected] == expected


AFTER = {
    "batch": lambda dataset: dataset.batch(2),
    "batch without the rest": lambda dataset: dataset.batch(3, drop_remainder=True),
    "filter": lambda dataset: dataset.filter(lambda *_: True),
    "map": lambda dataset: dataset.map(lambda *parts: parts, num_parallel_calls=2),
    "options": lambda dataset: dataset.with_options(tf.data.Options()),
    "prefetch": lambda dataset: dataset.prefetch(1),
    "repeat": lambda dataset: dataset.repeat(2),
}


def followed(dataset, names):
    for name in names:
        dataset = AFTER[name](dataset)
    return dataset


@settings(max_examples=settings().max_examples // 4)
@given(recipe=recipes(), names=st.lists(st.sampled_from(sorted(AFTER)), min_size=1, max_size=3), retuned=st.booleans())
def test_stages_after_any_optimized_pipeline_give_what_they_give_after_that_as_written(recipe, names, retuned):
    try:
        tree = extract(recipe())
        # Of a seeded shuffle right before a repeat TensorFlow makes one stage, with orders of its own.
        assume(reproducible(tree) and not ("repeat" in names and any(map(is_reseeded, trees.walk(tree)))))
        original = followed(recipe(), names)
        rewriting = rewrite(tree, catalogue(), keeps=Keeps.SEQUENCE, measurements=AlwaysFaster())
        optimized = OptimizedDataset(recipe(), rewriting, Plan("none"))
        expected = [flat(islice(original, MOST)) for _epoch in range(epochs_of(tree))]
    except (ValueError, TypeError, DatasetError, tf.errors.OpError):
        assume(False)
    dataset = followed(optimized, names)
    for epoch in expected:
        seen = []
        for step, element in enumerate(islice(dataset, MOST)):
            seen.append(element)
            if retuned:
                optimized.retune(setting(optimized, step))
        assert flat(seen) == epoch
