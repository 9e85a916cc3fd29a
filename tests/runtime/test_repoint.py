"""An iterator goes on over another pipeline, or as it was."""

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.runtime.repoint import repoint, state_of, waits_for_next_epoch

Dataset = tf.data.Dataset


def test_an_iterator_goes_on_as_it_was_where_its_state_does_not_fit_another_pipeline():
    iterator = iter(Dataset.range(10).shuffle(4, seed=1).batch(2))
    expected = [batch.numpy().tolist() for batch in Dataset.range(10).shuffle(4, seed=1).batch(2)]
    seen = [next(iterator).numpy().tolist()]
    assert not repoint(iterator, state_of(iterator), Dataset.range(10).batch(2).map(lambda x: x + 1))
    assert seen + [batch.numpy().tolist() for batch in iterator] == expected


def test_an_iterator_goes_on_over_a_pipeline_of_the_same_stages():
    iterator = iter(Dataset.range(10).map(lambda x: x + 1).prefetch(1))
    seen = [int(next(iterator)) for _ in range(4)]
    assert repoint(iterator, state_of(iterator), Dataset.range(10).map(lambda x: x + 1).prefetch(3))
    assert seen + [int(x) for x in iterator] == list(range(1, 11))


@pytest.mark.parametrize("symbolic", [False, True])
def test_symbolic_checkpoints_carry_no_iterator_over(symbolic):
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic
    tree = extract(Dataset.range(10).map(lambda x: x + 1).with_options(options))
    assert waits_for_next_epoch(tree) is symbolic
