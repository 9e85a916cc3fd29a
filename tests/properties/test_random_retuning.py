"""Retuned after every element, pipelines that nobody wrote for it give the sequence they gave.

``make test-deep`` tries hundreds; the usual run tries some.
"""

from itertools import islice

import tensorflow as tf
from hypothesis import assume, given, settings
from pipelines import recipes
from retuning import flat, read_retuning

import autopipe
from autopipe.errors import DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.repeatable import draws_freely, draws_race, order_is_free
from autopipe.pipeline.visibility import who_would_see

# Of endless ones; each setting comes up several times.
MOST = 20


@settings(max_examples=settings().max_examples // 4)
@given(recipe=recipes())
def test_retuning_after_every_element_keeps_the_sequence_of_any_pipeline(recipe):
    try:
        tree = extract(recipe())
        assume(who_would_see(tree) is None and not (draws_freely(tree) or draws_race(tree) or order_is_free(tree)))
        original, dataset = recipe(), autopipe.optimize(recipe(), rules=(), seconds=0)
        epochs = 1 if any(isinstance(node, ir.Repeat) and node.count < 0 for node in trees.walk(tree)) else 2
        expected = [flat(islice(original, MOST)) for _epoch in range(epochs)]
    except (ValueError, TypeError, DatasetError, tf.errors.OpError):
        assume(False)
    assert [flat(read_retuning(dataset, MOST)) for _epoch in range(epochs)] == expected
